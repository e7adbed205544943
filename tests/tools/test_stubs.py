"""Stubs and reference from a registry made up here: schemas in, exact text out."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

from tools import make_reference, make_stubs
from tools.operations import Operation, group
from tools.schema import SchemaError, Type, parse_schema, parse_type
from tools.signatures import forms

ROOT = Path(__file__).resolve().parents[2]


def entry(schema: str, kinds: str = "function method", **more: Any) -> dict[str, Any]:
    name = schema.split("(")[0].split(".")[0]
    plain = {"name": name, "family": "elementwise", "doc": "", "differentiable": True}
    return {**plain, "schema": schema, "kinds": kinds.split(), **more}


def calls(schema: str, kind: str = "function", kinds: str = "function method") -> list[str]:
    [operation] = group([entry(schema, kinds)])
    return [str(signature).removesuffix(": ...") for signature in forms(operation, kind)]


ADD = entry(
    "add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "function method inplace out",
    doc="Adds `other`, times `alpha`, to `input`.",
)
MAX = [
    entry("max(Tensor self) -> Tensor", family="reduction"),
    entry(
        "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        "function method out",
        family="reduction",
    ),
]
PAD = entry(
    'pad(Tensor self, int[] pad, str mode="constant", float? value=None) -> Tensor',
    "function",
    name="nn.functional.pad",
    family="layout",
    differentiable=False,
)


@pytest.fixture
def operations() -> list[Operation]:
    return group([*MAX, ADD, PAD])


# ---- schemas -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("Tensor", Type("Tensor")),
        ("Tensor(a!)", Type("Tensor")),
        ("Tensor(a -> *)", Type("Tensor")),
        ("Tensor(a)[]", Type("Tensor", is_list=True)),
        ("Tensor?", Type("Tensor", is_optional=True)),
        ("Tensor?[]", Type("Tensor", is_list=True, has_optional_items=True)),
        ("int[2]", Type("int", is_list=True, size=2)),
        ("int[]?", Type("int", is_list=True, is_optional=True)),
        ("dtype?", Type("dtype", is_optional=True)),
    ],
)
def test_types(text: str, type: Type) -> None:
    assert parse_type(text) == type


def test_a_schema() -> None:
    schema = parse_schema("flip.at(Tensor self, int[] dims=[0, 1], *, str s=',') -> (int, int)")
    assert (schema.name, schema.overload) == ("flip", "at")
    assert [p.name for p in schema.parameters] == ["self", "dims", "s"]
    assert [p.default for p in schema.parameters] == [None, "[0, 1]", "','"]
    assert [p.keyword_only for p in schema.parameters] == [False, False, True]
    assert len(schema.results) == 2


@pytest.mark.parametrize(
    "text",
    ["add", "add(Tensor self)", "add(Tensor) -> Tensor", "add(Tensor 2) -> T", "a(!x y) -> T"],
)
def test_a_schema_that_cannot_be_read_is_quoted(text: str) -> None:
    with pytest.raises(SchemaError) as error:
        parse_schema(text)
    assert repr(text) in str(error.value)


def test_a_type_without_a_python_name_is_refused() -> None:
    with pytest.raises(SchemaError, match="'Storage'"):
        calls("set(Tensor self, Storage source) -> Tensor")


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="sideways"):
        group([entry("add(Tensor self) -> Tensor", "function sideways")])


# ---- signatures ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "function"),
    [
        ("neg(Tensor self) -> Tensor", "def neg(input: Tensor) -> Tensor"),
        (
            "cat(Tensor[] tensors, int dim=0) -> Tensor",
            "def cat(tensors: Sequence[Tensor], dim: _int = 0) -> Tensor",
        ),
        (
            "put(Tensor self, Tensor?[] at) -> Tensor",
            "def put(input: Tensor, at: Sequence[Tensor | None]) -> Tensor",
        ),
        (
            "roll(Tensor self, int[1] by) -> Tensor",
            "def roll(input: Tensor, by: _int | Sequence[_int]) -> Tensor",
        ),
        (
            "flip(Tensor self, int[] dims=[-2,-1]) -> Tensor",
            "def flip(input: Tensor, dims: Sequence[_int] = (-2, -1)) -> Tensor",
        ),
        (
            "sum(Tensor self, *, dtype? dtype=None) -> Tensor",
            "def sum(input: Tensor, *, dtype: _dtype | None = None) -> Tensor",
        ),
        (
            "like(Tensor self, memory_format f=preserve_format) -> Tensor",
            "def like(input: Tensor, f: memory_format = ...) -> Tensor",
        ),
        (
            "split(Tensor(a) self, int n) -> Tensor(a)[]",
            "def split(input: Tensor, n: _int) -> tuple[Tensor, ...]",
        ),
        (
            "frexp(Tensor self) -> (Tensor, Tensor)",
            "def frexp(input: Tensor) -> tuple[Tensor, Tensor]",
        ),
        (
            "topk(Tensor self, int k) -> (Tensor values, Tensor indices)",
            "def topk(input: Tensor, k: _int) -> _topk_result",
        ),
        (
            "equal(Tensor self, Tensor other) -> bool",
            "def equal(input: Tensor, other: Tensor) -> _bool",
        ),
        ("fill(Tensor self, int from) -> ()", "def fill(input: Tensor, __from: _int) -> None"),
        (
            "where(Tensor condition, Tensor self, Tensor other) -> Tensor",
            "def where(condition: Tensor, input: Tensor, other: Tensor | Number) -> Tensor",
        ),
    ],
)
def test_functions(schema: str, function: str) -> None:
    assert calls(schema) == [function]


def test_a_method_is_of_the_tensor_called_self() -> None:
    schema = "where(Tensor condition, Tensor self, Tensor other) -> Tensor"
    assert calls(schema, "method") == [
        "def where(self, condition: Tensor, other: Tensor | Number) -> Tensor"
    ]


def test_a_lone_list_of_integers_may_be_spread_out() -> None:
    view = "view(Tensor(a) self, int[] size) -> Tensor(a)"
    assert calls(view, "method") == [
        "def view(self, size: Sequence[_int]) -> Tensor",
        "def view(self, *size: _int) -> Tensor",
    ]
    assert len(calls(view, "function")) == 1
    assert calls("ones(int[] size, *, dtype? dtype=None) -> Tensor", kinds="function out") == [
        "def ones(size: Sequence[_int], *, dtype: _dtype | None = None, "
        "out: Tensor | None = None) -> Tensor",
        "def ones(*size: _int, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor",
    ]


def test_in_place_forms_return_the_tensor_they_are_called_on() -> None:
    [operation] = group([ADD])
    assert [str(signature) for signature in forms(operation, "inplace")] == [
        "def add_(self, other: Tensor | Number, *, alpha: Number = 1) -> Self: ..."
    ]


# ---- files ---------------------------------------------------------------------------------------

TEMPLATE = """\
class Tensor:
    def add_(self) -> None: ...
    # <generated methods>

# <generated classes>
# <generated functions>
"""

STUB = """\
class Tensor:
    def add_(self) -> None: ...
    def add(self, other: Tensor | Number, *, alpha: Number = 1) -> Tensor: ...
    @overload
    def max(self) -> Tensor: ...
    @overload
    def max(self, dim: _int, keepdim: _bool = False) -> _max_result: ...

class _max_result(NamedTuple):
    values: Tensor
    indices: Tensor

def add(
    input: Tensor, other: Tensor | Number, *, alpha: Number = 1, out: Tensor | None = None
) -> Tensor: ...
@overload
def max(input: Tensor) -> Tensor: ...
@overload
def max(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> _max_result: ...
"""


def test_the_stub_of_the_core(operations: list[Operation]) -> None:
    assert make_stubs.core_stub(operations, TEMPLATE) == STUB


def test_the_stub_of_the_package(operations: list[Operation]) -> None:
    assert make_stubs.package_stub(operations, "# <generated exports>\n") == dedent("""\
        from weft._core import add as add
        from weft._core import max as max
        """)


def test_the_order_of_the_registry_does_not_matter(operations: list[Operation]) -> None:
    assert make_stubs.core_stub(group([PAD, ADD, *MAX]), TEMPLATE) == STUB
    assert make_reference.reference(group([PAD, ADD, *MAX])) == make_reference.reference(operations)


def test_the_reference(operations: list[Operation]) -> None:
    pages = {path.name: text for path, text in make_reference.reference(operations).items()}
    assert sorted(pages) == ["elementwise.md", "index.md", "layout.md", "reduction.md"]
    assert pages["elementwise.md"] == dedent("""\
        # elementwise

        <!-- Written by tools/make_reference.py. -->

        ## add

        ```python
        weft.add(
            input: Tensor,
            other: Tensor | Number,
            *,
            alpha: Number = 1,
            out: Tensor | None = None,
        ) -> Tensor
        Tensor.add(other: Tensor | Number, *, alpha: Number = 1) -> Tensor
        Tensor.add_(other: Tensor | Number, *, alpha: Number = 1) -> Tensor
        ```

        Adds `other`, times `alpha`, to `input`.

        Differentiable.
        """)
    assert "weft.nn.functional.pad(" in pages["layout.md"]
    assert "Has no gradient." in pages["layout.md"]
    assert "[nn.functional.pad](layout.md#nnfunctionalpad)" in pages["index.md"]


def test_a_stale_file_is_found_and_then_written(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(make_stubs, "ROOT", tmp_path)
    files = {tmp_path / "docs" / "a.md": "text"}
    assert make_stubs.write_or_check(files, only_check=True) == [
        "docs/a.md is stale: run `make stubs`"
    ]
    assert make_stubs.write_or_check(files, only_check=False) == []
    assert make_stubs.write_or_check(files, only_check=True) == []


def test_names_that_only_one_side_has_are_reported() -> None:
    stub = ast.parse("def add(): ...\nclass Tensor: ...\npi: float\n_hidden: int\n")
    weft = SimpleNamespace(add=1, Tensor=2, sub=3, _core=4)
    assert make_stubs.differences("weft", stub.body, weft) == [
        "weft.pi is only in a stub, not in weft",
        "weft.sub is in no stub: add it to tools/stubs",
    ]


def test_mypy_reads_the_stubs_as_a_user_would(operations: list[Operation], tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    package = tmp_path / "weft"
    (package / "autograd").mkdir(parents=True)
    (package / "autograd" / "__init__.py").touch()
    (package / "_size.pyi").write_text("class Size(tuple[int, ...]): ...\n")
    (package / "_dtypes.pyi").write_text("class finfo: ...\nclass iinfo: ...\n")
    for path, text in make_stubs.stubs(operations).items():
        (package / path.name).write_text(text)
    (tmp_path / "use.py").write_text(
        dedent("""\
            import weft

            def use(x: weft.Tensor) -> weft.Tensor:
                x += weft.add(x, 2, alpha=0.5)
                best = weft.max(x, 1).values * x.max()
                typed: weft.dtype = weft.float32 if x.dtype is weft.int else x.dtype
                x.nothing()
                return best.add_("text") + weft.tensor([1.0], dtype=typed)
            """)
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--config-file="]
    run = subprocess.run(
        [*command, "use.py", "weft/_core.pyi", "weft/__init__.pyi"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line.partition(" error: ")[2] for line in run.stdout.splitlines() if "error:" in line]
    assert len(errors) == 2, run.stdout
    assert '"Tensor" has no attribute "nothing"' in errors[0]
    assert 'incompatible type "str"' in errors[1]

"""Stubs and reference from a registry made up here: schemas in, exact text out."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tools import make_reference, make_stubs
from tools.operations import (
    Operation,
    composed_operation,
    families,
    group,
    merged,
    second_name,
)
from tools.schema import SchemaError, Type, parse_schema, parse_type
from tools.signatures import forms

if TYPE_CHECKING:
    from weft import Tensor

ROOT = Path(__file__).resolve().parents[2]


def entry(schema: str, kinds: str = "function method", **more: Any) -> dict[str, Any]:
    name = schema.split("(")[0].split(".")[0]
    plain = {"name": name, "family": "elementwise", "doc": "", "differentiable": True}
    return {**plain, "schema": schema, "kinds": kinds.split(), **more}


def calls(schema: str, kind: str = "function", kinds: str = "function method") -> list[str]:
    [operation] = group([entry(schema, kinds)])
    return [str(signature).removesuffix(": ...") for signature in forms(operation, kind)]


ADD = entry(
    "add(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
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
        ("Tensor|Scalar?", Type("Tensor|Scalar", is_optional=True)),
        ("int[]?", Type("int", is_list=True, is_optional=True)),
        ("DType?", Type("DType", is_optional=True)),
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
            "roll(Tensor self, int[] by) -> Tensor",
            "def roll(input: Tensor, by: _int | Sequence[_int]) -> Tensor",
        ),
        (
            "flip(Tensor self, int[] dims=[-2,-1]) -> Tensor",
            "def flip(input: Tensor, dims: _int | Sequence[_int] = (-2, -1)) -> Tensor",
        ),
        (
            "sum(Tensor self, *, DType? dtype=None) -> Tensor",
            "def sum(input: Tensor, *, dtype: _dtype | None = None) -> Tensor",
        ),
        (
            "like(Tensor self, MemoryFormat f=preserve_format) -> Tensor",
            "def like(input: Tensor, f: _memory_format = ...) -> Tensor",
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
            "where(Tensor condition, Tensor self, Tensor|Scalar other) -> Tensor",
            "def where(condition: Tensor, input: Tensor, other: Tensor | Number) -> Tensor",
        ),
    ],
)
def test_functions(schema: str, function: str) -> None:
    assert calls(schema) == [function]


def test_a_method_is_of_the_tensor_called_self() -> None:
    schema = "where(Tensor condition, Tensor self, Tensor|Scalar other) -> Tensor"
    assert calls(schema, "method") == [
        "def where(self, condition: Tensor, other: Tensor | Number) -> Tensor"
    ]


def test_a_lone_list_of_integers_may_be_spread_out() -> None:
    view = "view(Tensor(a) self, int[] size) -> Tensor(a)"
    assert calls(view, "method") == [
        "def view(self, size: _int | Sequence[_int]) -> Tensor",
        "def view(self, *size: _int) -> Tensor",
    ]
    assert len(calls(view, "function")) == 1
    assert calls("ones(int[] size, *, DType? dtype=None) -> Tensor", kinds="function out") == [
        "def ones(size: _int | Sequence[_int], *, dtype: _dtype | None = None, "
        "out: Tensor | None = None) -> Tensor",
        "def ones(*size: _int, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor",
    ]


def test_in_place_forms_return_the_tensor_they_are_called_on() -> None:
    [operation] = group([ADD])
    assert [str(signature) for signature in forms(operation, "inplace")] == [
        "def add_(self, other: Tensor | Number, *, alpha: Number = 1) -> Self: ..."
    ]


# ---- operations written in Python ----------------------------------------------------------------


def clipped(
    self: Tensor, bounds: Sequence[int], *, how: Path | None = None, strict: bool = True
) -> tuple[Tensor, ...]:
    """Keeps ``self`` within ``bounds``.

    The rest is for readers of the source.
    """
    raise NotImplementedError


def python_operation(kinds: str) -> Operation:
    composed = SimpleNamespace(name="clipped", namespace="", function=clipped, kinds=kinds.split())
    return composed_operation(composed)


def test_a_python_operation_is_called_as_its_source_says() -> None:
    operation = python_operation("function method inplace out")
    rest = "bounds: Sequence[_int], *, how: Any | None = None, strict: _bool = True"
    out = "out: Sequence[Tensor] | None = None"
    texts = [str(*forms(operation, kind)) for kind in ("function", "method", "inplace")]
    assert texts == [
        f"def clipped(input: Tensor, {rest}, {out}) -> tuple[Tensor, ...]: ...",
        f"def clipped(self, {rest}) -> tuple[Tensor, ...]: ...",
        f"def clipped_(self, {rest}) -> Self: ...",
    ]
    assert operation.doc == "Keeps `self` within `bounds`."


def test_a_python_form_stands_before_that_of_the_registry() -> None:
    [in_cpp] = group([entry("clipped(Tensor self) -> Tensor", "function method")])
    both = merged(in_cpp, python_operation("method"))
    assert str(*forms(both, "function")) == "def clipped(input: Tensor) -> Tensor: ..."
    assert "bounds" in str(*forms(both, "method"))


def test_families_are_the_files_that_the_list_names() -> None:
    text = "#define WEFT_OPS(X) \\\n  /* unary.cpp */ \\\n  X(Abs, kAll) /* join.cpp */ X(Cat, 0)"
    assert families(text) == {"Abs": "unary", "Cat": "join"}


def test_second_names() -> None:
    [first] = group([ADD])
    plus = second_name(first, SimpleNamespace(name="plus", namespace=""))
    assert [s.name for kind in ("function", "inplace") for s in forms(plus, kind)] == [
        "plus",
        "plus_",
    ]
    special = second_name(first, SimpleNamespace(name="plus", namespace="special"))
    assert special.name == "special.plus"
    assert not special.has("method")


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
    assert make_stubs.namespace_stub(operations, "", "# <generated exports>\n") == dedent("""\
        from weft._core import add as add
        from weft._core import max as max
        """)


def test_what_a_module_imports_for_its_users_is_in_its_stub(tmp_path: Path) -> None:
    module = tmp_path / "special.py"
    module.write_text(
        "import math\nfrom weft._core import a, _hidden, b as c\nfrom os import path\n"
    )
    assert make_stubs.reexports(module) == {
        "a": "from weft._core import a as a\n",
        "c": "from weft._core import b as c\n",
    }


def test_a_namespace_has_its_own_functions_and_those_offered_there() -> None:
    relu = entry("relu(Tensor self) -> Tensor", "function functional")
    found = group([relu, ADD, PAD])
    stub = make_stubs.namespace_stub(found, "nn.functional", "# <generated functions>\n")
    assert [line.split("(")[0] for line in stub.splitlines() if line.startswith("def")] == [
        "def pad",
        "def relu",
    ]


def test_the_order_of_the_registry_does_not_matter(operations: list[Operation]) -> None:
    assert make_stubs.core_stub(group([PAD, ADD, *MAX]), TEMPLATE) == STUB
    assert make_reference.reference(group([PAD, ADD, *MAX])) == make_reference.reference(operations)


def test_the_reference(operations: list[Operation]) -> None:
    pages = {path.name: text for path, text in make_reference.reference(operations).items()}
    assert sorted(pages) == ["README.md", "elementwise.md", "layout.md", "reduction.md"]
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
    assert "[nn.functional.pad](layout.md#nnfunctionalpad)" in pages["README.md"]


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
    shutil.copytree(ROOT / "weft", package, ignore=shutil.ignore_patterns("*.so", "lib"))
    for path, text in make_stubs.stubs(operations).items():
        (tmp_path / path.relative_to(ROOT)).write_text(text)
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
        [*command, "--follow-imports=silent", "use.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line.partition(" error: ")[2] for line in run.stdout.splitlines() if "error:" in line]
    assert len(errors) == 2, run.stdout
    assert '"Tensor" has no attribute "nothing"' in errors[0]
    assert 'incompatible type "str"' in errors[1]

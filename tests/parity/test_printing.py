"""Printed tensors, shapes and type limits are PyTorch's, character for character.

The printing code works on anything with a tensor's attributes, so it is first given PyTorch's own
tensors (which asks nothing of weft's core), and then weft's.
"""

from __future__ import annotations

import copy
import importlib.util
import itertools
import math
import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

PACKAGE = Path(__file__).parents[2] / "weft"


def load_source(name: str) -> ModuleType:
    """A module of weft that needs no core, by its file: it works before the core is built."""
    spec = importlib.util.spec_from_file_location(f"weft_source{name}", PACKAGE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


printing = load_source("_printing")
sizes = load_source("_size")
dtypes = load_source("_dtypes")

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


@pytest.fixture(autouse=True)
def default_dtype_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        printing, "_default_dtype", lambda: printing.dtype_name(torch.get_default_dtype())
    )


@contextmanager
def options(**values: Any) -> Iterator[None]:
    before = torch._tensor_str.get_printoptions()
    torch.set_printoptions(**values)
    printing.set_printoptions(**values)
    try:
        assert printing.get_printoptions() == torch._tensor_str.get_printoptions()
        yield
    finally:
        torch.set_printoptions(**before)
        printing.set_printoptions(**before)


def assert_same(tensor: torch.Tensor) -> None:
    if isinstance(tensor, torch.nn.Parameter):
        assert printing.parameter_repr(tensor) == repr(tensor)
    else:
        assert printing.tensor_repr(tensor) == repr(tensor)


SPECIAL = (0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.0, 1e-4, 9.9e-5, 1e8, 1.5e8, 1e5)


def random_tensor(source: random.Random) -> torch.Tensor:
    """Any dtype, 0 to 4 dimensions, values of one of the kinds that choose a notation."""
    shape = [source.choice((0, 1, 2, 3, 4, 7, 8, 13)) for _ in range(source.randint(0, 4))]
    if source.random() < 0.15:
        shape = [source.choice((1001, 1000, 40)), source.choice((1, 6, 7, 30))][: len(shape)]
    count = math.prod(shape)
    dtype = source.choice((torch.bool, *FLOATING, *FLOATING, *INTEGERS))
    generator = torch.Generator().manual_seed(source.randrange(2**31))
    if dtype == torch.bool:
        return torch.randint(2, shape, generator=generator).bool()
    if dtype in INTEGERS:
        limits = torch.iinfo(dtype)
        low = max(limits.min, source.choice((0, -10, -(10**6), limits.min)))
        high = min(limits.max, source.choice((2, 100, 10**9, limits.max)))
        return torch.randint(low, high, shape, generator=generator, dtype=dtype)
    kind = source.choice(("normal", "integral", "wide", "special", "mixed", "tiny", "large"))
    normal = torch.randn(count, generator=generator, dtype=torch.float64)
    special = torch.tensor([source.choice(SPECIAL) for _ in range(min(count, 2000))])
    special = special.double().repeat(count // 2000 + 1)[:count]
    values = {
        "normal": lambda: normal,
        "integral": lambda: (normal * source.choice((1, 10, 1e4, 1e9))).round(),
        "wide": lambda: normal * 10 ** (normal * 4),
        "special": lambda: special,
        "mixed": lambda: torch.where(normal > 1, special, normal),
        "tiny": lambda: normal * source.choice((1e-3, 1e-4, 1e-5, 1e-30, 1e-320)),
        "large": lambda: normal * source.choice((1e3, 1e7, 1e8, 1e30, 1e300)),
    }[kind]()
    result = values.to(dtype).reshape(shape)
    return result.requires_grad_(source.random() < 0.2)


@pytest.mark.parametrize("seed", range(20))
def test_generated_tensors_print_alike(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(100):
        tensor = random_tensor(source)
        assert_same(tensor)
        if tensor.requires_grad:
            assert_same(tensor + 1)
            assert_same(torch.nn.Parameter(tensor.detach()))
        if tensor.dim() > 1:
            assert_same(tensor.transpose(0, -1))


@pytest.mark.parametrize("seed", range(20))
def test_generated_options_print_alike(seed: int) -> None:
    source = random.Random(1000 + seed)
    for _ in range(30):
        chosen: dict[str, Any] = {
            name: source.choice(values)
            for name, values in {
                "precision": (0, 1, 2, 4, 8),
                "threshold": (0, 1, 5, 100, 10**9),
                "edgeitems": (0, 1, 2, 3, 5),
                "linewidth": (10, 40, 80, 200),
                "sci_mode": (None, True, False),
                "profile": (None, "default", "short", "full"),
            }.items()
            if source.random() < 0.5
        }
        if chosen.get("profile") == "full" or chosen.get("threshold", 0) > 1000:
            chosen["threshold"] = 3000
        with options(**chosen):
            for _ in range(5):
                assert_same(random_tensor(source))


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.floats(width=64), max_size=12),
    st.sampled_from(FLOATING),
)
def test_any_floats_print_alike(values: list[float], dtype: torch.dtype) -> None:
    assert_same(torch.tensor(values, dtype=torch.float64).to(dtype))
    for value in values:
        assert_same(torch.tensor(value, dtype=torch.float64).to(dtype))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.complex_numbers(width=64), max_size=8))
def test_complex_numbers_print_alike(values: list[complex]) -> None:
    assert_same(torch.tensor(values, dtype=torch.complex64))
    assert_same(torch.tensor(values, dtype=torch.complex128))


@pytest.mark.parametrize("default", [torch.float16, torch.float32, torch.float64])
def test_the_dtype_is_printed_where_it_is_not_implied(default: torch.dtype) -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        for dtype, shape in itertools.product(
            (torch.bool, *FLOATING, *INTEGERS, torch.complex64, torch.complex128),
            ((), (0,), (0, 3), (2,), (2, 2)),
        ):
            assert_same(torch.zeros(shape, dtype=dtype))
            assert_same(torch.zeros(shape, dtype=dtype, device="meta"))
    finally:
        torch.set_default_dtype(before)


def test_suffixes_wrap_alike() -> None:
    for length in range(1, 30):
        tensor = torch.rand(length, dtype=torch.float16, requires_grad=True)
        assert_same(tensor)
        assert_same(tensor.exp())
        assert_same(tensor.reshape(length, 1).expand(length, 3))


def test_history() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return 2 * x

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return 2 * gradient

    leaf = torch.ones(2, 2, requires_grad=True)
    for tensor in (leaf, leaf[0], leaf @ leaf, leaf.sum(), Twice.apply(leaf), leaf.detach()):
        assert_same(tensor)
    copied = torch.zeros(3)
    copied[0] = leaf.sum()
    assert_same(copied)
    base = leaf.clone()
    with torch.no_grad():
        view = base[0]
    base.mul_(2)
    assert_same(view)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones(2), torch.zeros(2))
        tangent = torch.autograd.forward_ad.unpack_dual(dual).tangent
        assert printing.tensor_repr(dual, tangent) == repr(dual)


def test_subclasses() -> None:
    class Reading(torch.Tensor):
        pass

    class Weight(torch.nn.Parameter):
        pass

    assert_same(torch.rand(30).as_subclass(Reading))
    assert_same(Weight(torch.rand(30)))
    assert_same(torch.nn.Parameter(torch.rand(30), requires_grad=False))


def test_a_large_tensor_is_not_read() -> None:
    class Watched:
        """A tensor that counts the elements it hands out."""

        read = 0

        def __init__(self, tensor: torch.Tensor) -> None:
            self._tensor = tensor

        def __getattr__(self, name: str) -> Any:
            return getattr(self._tensor, name)

        def __getitem__(self, key: Any) -> Watched:
            return Watched(self._tensor[key])

        def detach(self) -> Watched:
            return self

        def tolist(self) -> Any:
            Watched.read += self._tensor.numel()
            return self._tensor.tolist()

    Watched.__name__ = "Tensor"
    large = torch.arange(3e6).reshape(100, 100, 300)
    assert printing.tensor_repr(Watched(large)) == repr(large)
    assert Watched.read == 6 * 6 * 6


def test_format() -> None:
    for tensor in (torch.tensor(1.5), torch.tensor(3), torch.tensor(True), torch.tensor(math.nan)):
        for spec in ("", "5", ".2f"):
            assert printing.tensor_format(tensor, spec) == format(tensor, spec)
    with pytest.raises(TypeError, match=r"unsupported format string passed to Tensor.__format__"):
        printing.tensor_format(torch.zeros(2), ".2f")
    for tensor in (torch.zeros(2), torch.zeros((), device="meta")):
        assert printing.tensor_format(tensor, "") == repr(tensor)


def test_printoptions_come_back() -> None:
    before = printing.get_printoptions()
    with printing.printoptions(precision=2, profile="short"):
        assert printing.get_printoptions()["precision"] == 2
        assert printing.get_printoptions()["edgeitems"] == 2
    assert printing.get_printoptions() == before
    with pytest.raises(ValueError, match="profile must be one of"):
        printing.set_printoptions(profile="wide")


def test_sizes() -> None:
    shapes = ((), (2,), (2, 3), (4, 0, 5), (True, 2))
    for shape, other in itertools.product(shapes, repeat=2):
        ours, theirs = sizes.Size(shape), torch.Size(shape)
        assert repr(ours) == repr(theirs) and str(ours) == str(theirs)
        assert ours == theirs and hash(ours) == hash(theirs) and ours.numel() == theirs.numel()
        for result, expected in (
            (ours + other, theirs + other),
            (other + ours, other + theirs),
            (ours + sizes.Size(other), theirs + torch.Size(other)),
            (ours * 2, theirs * 2),
            (2 * ours, 2 * theirs),
            (ours[1:], theirs[1:]),
            (ours[::-1], theirs[::-1]),
            (copy.deepcopy(ours), theirs),
        ):
            assert type(result) is sizes.Size
            assert repr(result) == repr(expected)
    assert sizes.Size([2, 3])[-1] == 3
    assert type(sizes.Size(iter([torch.tensor(2), 3]))[0]) is int
    for wrong in ([2.5], ["a"], [1, None]):
        with pytest.raises(TypeError) as theirs_error:
            torch.Size(wrong)
        with pytest.raises(TypeError) as ours_error:
            sizes.Size(wrong)
        assert str(ours_error.value) == str(theirs_error.value)
    with pytest.raises(TypeError, match="can only concatenate tuple"):
        sizes.Size([2]).__add__([3])


def test_limits_of_float_types() -> None:
    for dtype in (*FLOATING, torch.complex64, torch.complex128):
        ours, theirs = dtypes.finfo(dtype), torch.finfo(dtype)
        assert repr(ours) == repr(theirs)
        for name in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"):
            assert getattr(ours, name) == getattr(theirs, name)
    assert dtypes.finfo(torch.float32) == dtypes.finfo(type=torch.float32)
    assert dtypes.finfo(torch.float32) != dtypes.finfo(torch.float64)
    with pytest.raises(AttributeError, match="not writable"):
        dtypes.finfo(torch.float32).eps = 1.0
    with pytest.raises(TypeError, match="requires a floating point input type"):
        dtypes.finfo(torch.int64)
    with pytest.raises(TypeError, match=r"must be torch.dtype, not int"):
        dtypes.finfo(3)


def test_limits_of_integer_types() -> None:
    for dtype in INTEGERS:
        ours, theirs = dtypes.iinfo(dtype), torch.iinfo(dtype)
        assert repr(ours) == repr(theirs)
        for name in ("bits", "max", "min", "dtype"):
            assert getattr(ours, name) == getattr(theirs, name)
    for dtype in (torch.float32, torch.bool):
        with pytest.raises(TypeError):
            dtypes.iinfo(dtype)


@pytest.mark.parametrize("seed", range(10))
def test_tensors_of_weft_print_alike(seed: int) -> None:
    weft = pytest.importorskip("weft._core") and pytest.importorskip("weft")
    from tests.parity.bridge import Bridge

    source = random.Random(5000 + seed)
    for _ in range(60):
        tensor = random_tensor(source)
        ours = Bridge(weft)(tensor)
        assert repr(ours) == repr(tensor) and str(ours) == str(tensor)
        if tensor.requires_grad:
            assert repr(ours * 2) == repr(tensor * 2)
        assert repr(ours.shape) == repr(tensor.shape)
        assert pickle.loads(pickle.dumps(ours.shape)) == tuple(tensor.shape)

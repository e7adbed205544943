"""Type promotion: every pair of dtypes, of every kind of argument, against PyTorch."""

from __future__ import annotations

import itertools
import operator
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from .._target import weft
from .bridge import DTYPES, Bridge, dtype_name
from .compare import Mismatch, same_values
from .opdb import attempt, first_line

KINDS = ("tensor", "zero_dim", "scalar")
SCALARS = {"bool": True, "int": 3, "float": 1.5}
BINARY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda m, a, b: m.add(a, b),
    "sub": lambda m, a, b: m.sub(a, b),
    "mul": lambda m, a, b: m.mul(a, b),
    "div": lambda m, a, b: m.div(a, b),
    "floor_divide": lambda m, a, b: m.floor_divide(a, b),
    "remainder": lambda m, a, b: m.remainder(a, b),
    "trunc_div": lambda m, a, b: m.div(a, b, rounding_mode="trunc"),
    "pow": lambda m, a, b: m.pow(a, b),
    "eq": lambda m, a, b: m.eq(a, b),
    "lt": lambda m, a, b: m.lt(a, b),
    "ge": lambda m, a, b: m.ge(a, b),
    "maximum": lambda m, a, b: m.maximum(a, b),
    "atan2": lambda m, a, b: m.atan2(a, b),
    "bitwise_and": lambda m, a, b: m.bitwise_and(a, b),
    "logical_and": lambda m, a, b: m.logical_and(a, b),
    "where": lambda m, a, b: m.where(m.tensor([True, False]), a, b),
    "result_type": lambda m, a, b: m.result_type(a, b),
    "__add__": lambda m, a, b: a + b,
    "__rsub__": lambda m, a, b: b - a,
    "__truediv__": lambda m, a, b: a / b,
    "__floordiv__": lambda m, a, b: a // b,
    "__mod__": lambda m, a, b: a % b,
    "__pow__": lambda m, a, b: a**b,
    "__rpow__": lambda m, a, b: b**a,
    "__lshift__": lambda m, a, b: a << b,
    "__and__": lambda m, a, b: a & b,
    "__xor__": lambda m, a, b: a ^ b,
}
DTYPE_IDS = [dtype_name(dtype) for dtype in DTYPES]


def operand(kind: str, dtype: torch.dtype) -> torch.Tensor:
    values = [1, 1] if kind == "tensor" else 1
    return torch.tensor(values, dtype=dtype)


def others() -> list[Any]:
    """Second operands: each dtype as tensor and 0-dim tensor, and the Python scalars."""
    tensors = [operand(kind, dtype) for kind in ("tensor", "zero_dim") for dtype in DTYPES]
    return [*tensors, *SCALARS.values()]


def agree(call: Callable[[Any, Any, Any], Any], first: Any, second: Any) -> str | None:
    """None where both modules give the same dtype and values or refuse; else what differs."""
    to_torch, to_ours = Bridge(torch), Bridge(weft)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = attempt(lambda: call(torch, *to_torch((first, second))))
        actual = attempt(lambda: call(weft, *to_ours((first, second))))
    if expected.error is not None or actual.error is not None:
        if expected.error is not None and actual.error is not None:
            return None
        ours = first_line(actual.error) if actual.error else f"{actual.result.dtype}"
        theirs = first_line(expected.error) if expected.error else f"{expected.result.dtype}"
        return f"{ours}, torch {theirs}"
    if isinstance(expected.result, torch.dtype):
        if dtype_name(actual.result) == dtype_name(expected.result):
            return None
        return f"{actual.result}, torch {expected.result}"
    if dtype_name(actual.result.dtype) != dtype_name(expected.result.dtype):
        return f"{actual.result.dtype}, torch {expected.result.dtype}"
    if tuple(actual.result.shape) != tuple(expected.result.shape):
        return f"{tuple(actual.result.shape)}, torch {tuple(expected.result.shape)}"
    try:
        same_values(actual.result, expected.result, weft, (0.02, 0.02))
    except Mismatch as mismatch:
        return str(mismatch)
    return None


def text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{dtype_name(value.dtype)}{'' if value.dim() else ' 0-dim'}"
    return type(value).__name__


def assert_all_agree(call: Callable[[Any, Any, Any], Any], pairs: list[tuple[Any, Any]]) -> None:
    wrong = []
    for first, second in pairs:
        difference = agree(call, first, second)
        if difference is not None:
            wrong.append(f"({text(first)}, {text(second)}): {difference}")
    assert not wrong, f"{len(wrong)} of {len(pairs)}:\n" + "\n".join(wrong[:20])


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    firsts = [operand(kind, dtype) for kind in ("tensor", "zero_dim") for dtype in DTYPES]
    assert_all_agree(BINARY[name], list(itertools.product(firsts, others())))


@pytest.mark.parametrize("name", ["add", "mul", "div", "pow", "eq", "where"])
def test_empty_and_broadcast_do_not_change_promotion(name: str) -> None:
    firsts = [torch.ones(0, dtype=dtype) for dtype in DTYPES]
    seconds = [torch.ones((1,), dtype=dtype) for dtype in DTYPES]
    if name == "where":
        firsts = [torch.ones(1, 1, dtype=dtype) for dtype in DTYPES]
    assert_dtypes_agree(BINARY[name], list(itertools.product(firsts, seconds)))


def assert_dtypes_agree(call: Callable[[Any, Any, Any], Any], pairs: list[tuple[Any, Any]]) -> None:
    wrong = []
    for first, second in pairs:
        expected = attempt(lambda f=first, s=second: call(torch, f, s))
        actual = attempt(lambda f=first, s=second: call(weft, *Bridge(weft)((f, s))))
        same_refusal = (expected.error is None) == (actual.error is None)
        if not same_refusal or (
            expected.error is None
            and dtype_name(actual.result.dtype) != dtype_name(expected.result.dtype)
        ):
            wrong.append(f"({text(first)}, {text(second)}): {actual}, torch {expected}")
    assert not wrong, "\n".join(wrong[:20])


INPLACE = {
    "iadd": operator.iadd,
    "isub": operator.isub,
    "imul": operator.imul,
    "itruediv": operator.itruediv,
    "ifloordiv": operator.ifloordiv,
    "imod": operator.imod,
    "ipow": operator.ipow,
    "iand": operator.iand,
    "copy_": lambda a, b: a.copy_(b),
    "fill_": lambda a, b: a.fill_(b),
    "eq_": lambda a, b: a.eq_(b),
    "clamp_": lambda a, b: a.clamp_(min=b),
}


@pytest.mark.parametrize("name", INPLACE)
def test_inplace_keeps_its_dtype_or_refuses(name: str) -> None:
    """`int_tensor += 1.5` is refused, `float_tensor += 1` is not; nothing changes when refused."""
    call = INPLACE[name]
    wrong = []
    for first_dtype, second in itertools.product(DTYPES, others()):
        first = torch.tensor([3, 1], dtype=first_dtype)
        to_torch, to_ours = Bridge(torch), Bridge(weft)
        (theirs, other), (ours, our_other) = to_torch((first, second)), to_ours((first, second))
        expected = attempt(lambda t=theirs, o=other: call(t, o))
        actual = attempt(lambda t=ours, o=our_other: call(t, o))
        label = f"{dtype_name(first_dtype)} {name} {text(second)}"
        if (expected.error is None) != (actual.error is None):
            shown = first_line(actual.error) if actual.error else "accepted"
            torch_shown = first_line(expected.error) if expected.error else "accepted"
            wrong.append(f"{label}: {shown}, torch {torch_shown}")
            continue
        try:
            same_values(ours, theirs, weft, (0.02, 0.02))
        except Exception as mismatch:
            wrong.append(f"{label}: {mismatch}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:20])


@pytest.mark.parametrize("name", ["cat", "stack"])
def test_joining(name: str) -> None:
    def call(module: Any, a: Any, b: Any) -> Any:
        return getattr(module, name)([a, b])

    firsts = [torch.ones(2, dtype=dtype) for dtype in DTYPES]
    assert_all_agree(call, list(itertools.product(firsts, firsts)))


@pytest.mark.parametrize("value", [True, 3, 2**40, -5, 1.5, float("inf"), float("nan")])
def test_scalars_out_of_range(value: Any) -> None:
    """A Python number that the tensor's dtype cannot hold: wrapped, rounded or refused alike."""
    wrong = []
    for dtype in DTYPES:
        for call in (
            lambda m, a, v: a + v,
            lambda m, a, v: a * v,
            lambda m, a, v: a == v,
            lambda m, a, v: m.full((2,), v, dtype=a.dtype),
        ):
            if isinstance(value, float) and value != 1.5 and not dtype.is_floating_point:
                continue  # what a cast of NaN to an integer gives is each library's own
            difference = agree(call, operand("tensor", dtype), value)
            if difference is not None:
                wrong.append(f"{dtype_name(dtype)} with {value}: {difference}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("default", [torch.float32, torch.float64, torch.bfloat16])
def test_default_dtype_decides_integers_divided(default: torch.dtype) -> None:
    """`int / int`, `sqrt(int)`, `tensor(1.5)` and `int + 1.5` follow the default dtype."""
    calls = (
        lambda m: m.tensor([1, 2]) / m.tensor([2, 2]),
        lambda m: m.tensor([1, 2]).sqrt(),
        lambda m: m.tensor([1.5]),
        lambda m: m.tensor([1, 2]) + 1.5,
        lambda m: m.tensor([1, 2]).mean(dtype=m.get_default_dtype()),
        lambda m: m.zeros(2),
        lambda m: m.arange(0, 1, 0.25),
        lambda m: m.linspace(0, 1, 3),
        lambda m: m.full((2,), 1.5),
    )
    try:
        torch.set_default_dtype(default)
        weft.set_default_dtype(getattr(weft, dtype_name(default)))
        for index, call in enumerate(calls):
            expected, actual = call(torch), call(weft)
            assert dtype_name(actual.dtype) == dtype_name(expected.dtype), f"call {index}"
            assert dtype_name(weft.get_default_dtype()) == dtype_name(default)
    finally:
        torch.set_default_dtype(torch.float32)
        weft.set_default_dtype(weft.float32)


def test_promotion_functions() -> None:
    """`promote_types` and `can_cast` over all pairs, complex in the table too."""
    names = [*DTYPE_IDS, "complex64", "complex128"]
    for one, other in itertools.product(names, names):
        theirs = torch.promote_types(getattr(torch, one), getattr(torch, other))
        ours = weft.promote_types(getattr(weft, one), getattr(weft, other))
        assert dtype_name(ours) == dtype_name(theirs), (one, other)
        theirs = torch.can_cast(getattr(torch, one), getattr(torch, other))
        assert weft.can_cast(getattr(weft, one), getattr(weft, other)) == theirs, (one, other)


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "mean", "argmax", "all", "amax"])
def test_reductions_promote(name: str) -> None:
    for dtype in DTYPES:
        dims: tuple[Any, ...] = (0,) if name == "cumsum" else ()
        expected = attempt(lambda d=dtype, a=dims: getattr(torch.ones(2, dtype=d), name)(*a))
        source = Bridge(weft)(torch.ones(2, dtype=dtype))
        actual = attempt(lambda s=source, a=dims: getattr(s, name)(*a))
        assert (expected.error is None) == (actual.error is None), (dtype, actual, expected)
        if expected.error is None:
            assert dtype_name(actual.result.dtype) == dtype_name(expected.result.dtype), dtype

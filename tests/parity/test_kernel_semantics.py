"""Every functor against PyTorch on edge values: infinities, NaN, zeros' signs, integer limits."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from ..kernels.math import tiles
from ..kernels.math.tiles import words

pytestmark = pytest.mark.skipif(not tiles.can_build(), reason="no g++")

Tensor = torch.Tensor
INF, NAN = float("inf"), float("nan")

FLOAT_EDGES = [
    0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0, 2.5, -2.5, 3.0, -3.0, 7.3, -7.3, 0.1,
    -0.1, 20.0, -20.0, 90.0, -90.0, 150.0, -150.0, 1e-3, -1e-3, 1e-30, -1e-30, 1e30, -1e30,
    1e-42, -1e-42, INF, -INF, NAN,
]  # fmt: skip


def saved(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The derivative functor (g, x) of an activation, by PyTorch's own backward."""

    def gradient(g: Tensor, x: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        function(x).backward(g)
        assert x.grad is not None
        return x.grad

    return gradient


aten = torch.ops.aten
UNARY: dict[str, Callable[..., Tensor]] = {
    name: getattr(torch, name)
    for name in words(
        """
        abs neg sign square reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan
        asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv lgamma digamma sinc sigmoid
        logit ceil floor trunc round frac deg2rad rad2deg isnan isinf isfinite isposinf isneginf
        signbit logical_not bitwise_not relu
        """
    )
}
UNARY |= {
    "trigamma": lambda x: torch.polygamma(1, x),
    "polygamma": lambda x: torch.polygamma(2, x),
    "round_decimals": lambda x: torch.round(x, decimals=2),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "log_sigmoid": F.logsigmoid,
    "softplus": lambda x: F.softplus(x, 1.5, 20.0),
    "elu": lambda x: aten.elu(x, 1.2, 1.05, 0.9),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.01),
    "nan_to_num": lambda x: torch.nan_to_num(x, 0.5, 1e30, -1e30),
    "hardtanh": lambda x: F.hardtanh(x, -1.0, 1.5),
}
BINARY: dict[str, Callable[..., Tensor]] = {
    name: getattr(torch, name)
    for name in words(
        """
        add sub mul div remainder fmod pow atan2 copysign fmax fmin maximum minimum hypot logaddexp
        logaddexp2 xlogy heaviside gcd lcm eq ne lt le gt ge logical_and logical_or logical_xor
        bitwise_and bitwise_or bitwise_xor nextafter
        """
    )
}
BINARY |= {
    "div_floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "shift_left": torch.bitwise_left_shift,
    "shift_right": torch.bitwise_right_shift,
    "add_scaled": lambda a, b: torch.add(
        a, b, alpha=0.7 if a.is_floating_point() else True if a.dtype == torch.bool else 3
    ),
    "sqrt_grad": lambda g, y: g / (2 * y),
    "rsqrt_grad": lambda g, y: -0.5 * g * y**3,
    "reciprocal_grad": lambda g, y: -g * (y * y),
    "tanh_grad": aten.tanh_backward,
    "sigmoid_grad": aten.sigmoid_backward,
    "relu_grad": lambda g, y: aten.threshold_backward(g, y, 0),
    "gelu_grad": saved(F.gelu),
    "gelu_tanh_grad": saved(lambda x: F.gelu(x, approximate="tanh")),
    "silu_grad": saved(F.silu),
    "log_sigmoid_grad": saved(F.logsigmoid),
    "softplus_grad": saved(lambda x: F.softplus(x, 1.5, 20.0)),
    "elu_grad": lambda g, x: aten.elu_backward(g, 1.2, 1.05, 0.9, False, x),
    "leaky_relu_grad": saved(lambda x: F.leaky_relu(x, 0.01)),
    "hardtanh_grad": lambda g, y: aten.hardtanh_backward(g, y, -1.0, 1.5),
    "binary_cross_entropy": lambda x, t: (
        (t - 1) * torch.log1p(-x).clamp(min=-100) - t * torch.log(x).clamp(min=-100)
    ),
}
TERNARY: dict[str, Callable[..., Tensor]] = {
    "clamp": torch.clamp,
    "lerp": torch.lerp,
    "addcmul": lambda a, b, c: torch.addcmul(a, b, c, value=-1.3 if a.is_floating_point() else 2),
    "addcdiv": lambda a, b, c: torch.addcdiv(a, b, c, value=0.4),
    "where": torch.where,
}
REFERENCES = UNARY | BINARY | TERNARY


# PyTorch's own results cancel in the tails of these, down to a zero of whichever sign.
INACCURATE_TAILS = set(
    words("gelu gelu_tanh gelu_grad gelu_tanh_grad silu silu_grad logaddexp2 sinc trigamma")
)
LIMITS_AT_INFINITY = set(
    words("gelu gelu_tanh silu gelu_grad gelu_tanh_grad silu_grad elu_grad sinc polygamma")
)


def edges(dtype: str) -> np.ndarray:
    if dtype.startswith("float"):
        limits = np.finfo(dtype)
        extra = [limits.max, -limits.max, limits.tiny, limits.smallest_subnormal]
        return np.array([*FLOAT_EDGES, *extra], dtype)
    if dtype == "bool":
        return np.array([False, True])
    info = np.iinfo(dtype)
    values = [0, 1, 2, 3, 5, 7, 8, 31, 63, 64, 100, info.max, info.max - 1, info.min]
    if info.min < 0:
        values += [-1, -2, -3, -7, -100, info.min + 1]
    return np.array(values, dtype)


CASES = [
    (name, dtype)
    for name in REFERENCES
    for dtype in tiles.dtypes_of(name)
    if (name, dtype) != ("hardtanh", "uint8")  # refused: the limits used here are negative
]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_edge_values(name: str, dtype: str) -> None:
    arity = tiles.arity_of(name)
    values = edges(dtype)
    if arity == 3 and dtype.startswith("float"):
        values = values[::2]
    columns = [
        np.array(c, dtype) for c in zip(*itertools.product(values, repeat=arity), strict=True)
    ]
    if name in ("remainder", "fmod", "div_floor") and dtype.startswith("float"):
        # PyTorch's vectors give NaN where the quotient overflows.
        with np.errstate(all="ignore"):
            overflow = np.isinf(columns[0] / columns[1])
        keep = ~(overflow & np.isfinite(columns[0]) & (columns[1] != 0))
        columns = [c[keep] for c in columns]
    if name in LIMITS_AT_INFINITY and arity == 2:
        keep = ~(np.abs(columns[0]) > 3)
        columns = [c[keep] for c in columns]
    if name == "where":
        columns[0] = columns[0] != 0
    if name in ("div_floor", "div_trunc", "remainder", "fmod") and not dtype.startswith("float"):
        info = np.iinfo(dtype)
        keep = (columns[1] != 0) & ~((columns[0] == info.min) & (columns[1] == -1) & (info.min < 0))
        columns = [c[keep] for c in columns]
    if name in ("gcd", "lcm"):  # PyTorch traps on the smallest integer
        keep = (columns[0] != np.iinfo(dtype).min) & (columns[1] != np.iinfo(dtype).min)
        keep |= np.iinfo(dtype).min == 0
        columns = [c[keep] for c in columns]
    if name == "pow" and dtype.startswith("int"):
        # PyTorch multiplies its way up; a huge exponent is the same modulo 2^n but takes it long.
        keep = columns[1] <= 100
        columns = [c[keep] for c in columns]
    ours = tiles.run(name, columns, isa=tiles.isas_here()[-1])
    expected = REFERENCES[name](*(torch.from_numpy(c) for c in columns)).numpy()
    if not dtype.startswith("float") or ours.dtype == np.bool_:
        wrong = ours != expected
    else:
        bound = 3e-6 if dtype == "float32" else 1e-13
        if name == "trigamma":  # of which PyTorch knows ten digits, and none at the poles
            bound = 3e-6
            poles = (columns[0] < 0) & (columns[0] == np.rint(columns[0]))
            expected = np.where(poles, ours, expected)
        smallest = bound if name in INACCURATE_TAILS else np.finfo(dtype).tiny
        with np.errstate(all="ignore"):
            close = np.abs(ours - expected) <= bound * np.abs(expected) + smallest
        wrong = ~(close | (ours == expected) | (np.isnan(ours) & np.isnan(expected)))
        if name not in INACCURATE_TAILS:
            both_zero = (ours == 0) & (expected == 0)
            wrong |= both_zero & (np.signbit(ours) != np.signbit(expected))
        if name in LIMITS_AT_INFINITY:  # where PyTorch multiplies infinity by 0
            wrong &= np.abs(columns[-1]) < 1e30
    report = [
        f"{[c[i].item() for c in columns]}: {ours[i]} for {expected[i]}"
        for i in np.flatnonzero(wrong)[:8]
    ]
    assert not report, f"{wrong.sum()} of {len(wrong)}: " + "; ".join(report)


def test_every_operation_has_a_reference() -> None:
    assert set(REFERENCES) == set(tiles.operations())


FLOAT_CASTS = [3e9, -3e9, 3e9 + 100, 5e9 + 77, 1e20, 300.7, -1.5, -129.0, 70000.0, INF, -INF, NAN]
FLOAT_CASTS += [65504.0, 65519.0, 65520.0, 2.98e-8, 2.99e-8, 6e-8, 1e-40, 3.4e38, 1 + 2.0**-11]


@pytest.mark.parametrize("source", tiles.DTYPE_NAMES)
@pytest.mark.parametrize("target", tiles.DTYPE_NAMES)
def test_casts(source: str, target: str) -> None:
    if source.startswith(("float", "bfloat")):
        x = torch.tensor(FLOAT_CASTS, dtype=torch.float64).to(getattr(torch, source))
    elif source.startswith("complex"):
        x = torch.tensor([0, 1.5, -3, 1j, 2 - 1j], dtype=getattr(torch, source))
    else:
        x = torch.from_numpy(edges(source))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the imaginary part that is dropped
        expected = x.to(getattr(torch, target))
    raw = [t.view(torch.uint16) if t.dtype == torch.bfloat16 else t for t in (x, expected)]
    ours = tiles.cast(raw[0].numpy(), source, target, isa=tiles.isas_here()[-1])
    same = tiles.same_bits(raw[1].numpy(), ours)
    if target == "bfloat16":
        same |= expected.isnan().numpy() & ((ours & 0x7FFF) > 0x7F80)
    assert same.all(), (x[~same], expected[~same], ours[~same])

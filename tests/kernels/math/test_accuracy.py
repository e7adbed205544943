"""Errors in units in the last place, against mpmath; remainders against exact fractions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from . import tiles

pytestmark = pytest.mark.skipif(not tiles.can_build(), reason="no g++")

mp.prec = 130
FLOATS = {"float32": np.float32, "float64": np.float64}
Sampler = Callable[[np.random.Generator, str], list[np.ndarray]]


def wide(rng: np.random.Generator, low: float, high: float, count: int = 400) -> np.ndarray:
    """Magnitudes spread evenly over the exponents, of both signs."""
    size = np.exp(rng.uniform(np.log(low), np.log(high), count))
    return size * rng.choice([-1.0, 1.0], count)


def around(low: float, high: float, tiny: float = 1e-30) -> Sampler:
    """Uniform over [low, high], and small magnitudes within it."""

    def sample(rng: np.random.Generator, dtype: str) -> list[np.ndarray]:
        near = wide(rng, tiny, max(abs(low), abs(high)))
        near = np.abs(near) if low >= 0 else near
        return [np.concatenate([rng.uniform(low, high, 600), near[(near >= low) & (near <= high)]])]

    return sample


def by_dtype(single: Sampler, double: Sampler) -> Sampler:
    return lambda rng, dtype: (single if dtype == "float32" else double)(rng, dtype)


def positive(rng: np.random.Generator, dtype: str) -> list[np.ndarray]:
    limits = np.finfo(dtype)
    low, high = float(limits.smallest_subnormal), float(limits.max)
    far = np.abs(wide(rng, max(low, 5e-320), high * 0.99))
    return [np.concatenate([far, rng.uniform(0.5, 2, 400), 1 + wide(rng, 1e-16, 0.3)])]


def any_angle(rng: np.random.Generator, dtype: str) -> list[np.ndarray]:
    quarter_turns = np.arange(1, 200) * (np.pi / 2)  # the hardest of the small arguments
    return [np.concatenate([rng.uniform(-8, 8, 400), wide(rng, 1e-20, 1e38), quarter_turns])]


def two(low: float, high: float) -> Sampler:
    return lambda rng, dtype: [wide(rng, low, high, 800), wide(rng, low, high, 800)]


def powers(rng: np.random.Generator, dtype: str) -> list[np.ndarray]:
    base = np.abs(np.concatenate([wide(rng, 1e-30, 1e30), rng.uniform(0.5, 2, 400)]))
    reach = 85 if dtype == "float32" else 700
    exponent = rng.uniform(-1, 1, len(base)) * reach / np.maximum(np.abs(np.log(base)), 1e-3)
    return [base, exponent]


def sigmoid(x: mpf) -> mpf:
    return 1 / (1 + mpmath.exp(-x))


def gelu(x: mpf) -> mpf:
    return x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def gelu_tanh(x: mpf) -> mpf:
    u = 2 * mpmath.sqrt(2 / mp.pi) * (x + mpf("0.044715") * x**3)
    return x * sigmoid(u)


def softplus(x: mpf) -> mpf:
    return mpmath.log1p(mpmath.exp(1.5 * x)) / 1.5


def sinc(x: mpf) -> mpf:
    return mpmath.sinpi(x) / (mp.pi * x)


# Reference, sampler, and the bounds in float32 and float64.
CASES: dict[str, tuple[Callable[..., mpf], Sampler, float, float]] = {
    "exp": (mpmath.exp, by_dtype(around(-104, 88), around(-745, 709)), 1.0, 1.0),
    "exp2": (lambda x: mpf(2) ** x, by_dtype(around(-149, 127), around(-1074, 1023)), 0.51, 1.0),
    "expm1": (mpmath.expm1, by_dtype(around(-20, 88), around(-40, 709)), 1.2, 1.2),
    "log": (mpmath.log, positive, 1.0, 0.51),
    "log2": (lambda x: mpmath.log(x, 2), positive, 0.51, 0.51),
    "log10": (mpmath.log10, positive, 0.51, 0.51),
    "log1p": (mpmath.log1p, around(-0.99, 30), 1.6, 0.51),
    "sin": (mpmath.sin, any_angle, 1.0, 1.0),
    "cos": (mpmath.cos, any_angle, 1.0, 1.0),
    "tan": (mpmath.tan, any_angle, 0.51, 1.1),
    "asin": (mpmath.asin, around(-1, 1), 0.51, 0.8),
    "acos": (mpmath.acos, around(-1, 1), 0.51, 0.8),
    "atan": (mpmath.atan, around(-30, 30), 0.51, 1.0),
    "sinh": (mpmath.sinh, by_dtype(around(-89, 89), around(-710, 710)), 0.51, 1.7),
    "cosh": (mpmath.cosh, by_dtype(around(-89, 89), around(-710, 710)), 0.51, 1.4),
    "tanh": (mpmath.tanh, around(-20, 20), 1.6, 1.6),
    "asinh": (mpmath.asinh, around(-30, 30), 0.51, 0.6),
    "acosh": (mpmath.acosh, around(1, 30), 0.51, 0.6),
    "atanh": (mpmath.atanh, around(-0.999, 0.999), 0.51, 0.6),
    "sinc": (sinc, around(-20, 20, 1e-12), 0.51, 2.0),
    "erf": (mpmath.erf, around(-5, 5), 1.2, 1.2),
    "erfc": (mpmath.erfc, by_dtype(around(-4, 10), around(-6, 27)), 2.2, 2.5),
    "erfinv": (mpmath.erfinv, around(-0.9999, 0.9999), 0.51, 2.5),
    "lgamma": (mpmath.loggamma, around(0.01, 40, 1e-8), 0.51, 4.0),
    "digamma": (mpmath.digamma, around(1.6, 40), 0.51, 4.0),
    "trigamma": (lambda x: mpmath.polygamma(1, x), around(0.01, 40, 1e-8), 0.51, 4.0),
    "sigmoid": (sigmoid, by_dtype(around(-103, 30), around(-744, 40)), 1.0, 1.0),
    "silu": (lambda x: x * sigmoid(x), by_dtype(around(-103, 30), around(-744, 40)), 1.5, 1.5),
    "log_sigmoid": (lambda x: -mpmath.log1p(mpmath.exp(-x)), around(-50, 50), 1.8, 1.8),
    "softplus": (softplus, around(-50, 13), 2.0, 2.0),
    "gelu": (gelu, by_dtype(around(-14, 6), around(-38, 8)), 2.5, 4.5),
    "gelu_tanh": (gelu_tanh, by_dtype(around(-10, 6), around(-20, 8)), 1.5, 1.5),
    "logit": (lambda x: mpmath.log(x / (1 - x)), around(0.001, 0.999), 0.51, 0.6),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), positive, 1.6, 1.6),
    "pow": (mpmath.power, powers, 0.51, 1.4),
    "atan2": (mpmath.atan2, two(1e-5, 1e5), 0.51, 1.0),
    "hypot": (mpmath.hypot, two(1e-5, 1e5), 0.51, 1.0),
    "xlogy": (lambda x, y: x * mpmath.log(y), lambda *a: powers(*a)[::-1], 1.6, 1.2),
}


def errors(results: np.ndarray, references: list[mpf]) -> np.ndarray:
    limits = np.finfo(results.dtype)
    found = []
    for result, reference in zip(results, references, strict=True):
        exponent = max(int(mp.frexp(abs(reference))[1]) - 1, int(limits.minexp))
        unit = mpf(2) ** (exponent - limits.nmant)
        found.append(float(abs(mpf(float(result)) - reference) / unit))
    return np.array(found)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", CASES)
def test_units_in_the_last_place(name: str, dtype: str) -> None:
    reference, sampler, single, double = CASES[name]
    rng = np.random.default_rng(11)
    operands = [o.astype(FLOATS[dtype]) for o in sampler(rng, dtype)]
    if name == "tan" and dtype == "float32":
        operands[0] = operands[0][np.abs(np.tan(operands[0].astype(np.float64))) < 1e30]
    results = tiles.run(name, operands, isa=tiles.isas_here()[-1])
    columns = zip(*operands, strict=True)
    references = [mpf(reference(*(mpf(float(x)) for x in row))) for row in columns]
    off = errors(results, references)
    worst = int(np.argmax(off))
    bound = single if dtype == "float32" else double
    assert off[worst] <= bound, (
        f"{off[worst]:.3g} units at {[float(o[worst]).hex() for o in operands]}: "
        f"{results[worst]!r} for {mpmath.nstr(references[worst], 20)}"
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_remainders_are_exact(dtype: str) -> None:
    rng = np.random.default_rng(5)
    high = 1e38 if dtype == "float32" else 1e300
    a = np.concatenate([wide(rng, 1 / high, high, 1500), wide(rng, 1e-3, 1e3, 1500)])
    b = np.concatenate([wide(rng, 1 / high, high, 1500), wide(rng, 1e-3, 1e3, 1500)])
    a[-500:] = b[-500:] * rng.integers(-99, 99, 500)  # whole quotients, or nearly
    a, b = a.astype(FLOATS[dtype]), b.astype(FLOATS[dtype])
    rest = tiles.run("fmod", [a, b], isa=tiles.isas_here()[-1])
    for x, y, r in zip(a, b, rest, strict=True):
        exact_x, exact_y = Fraction(float(x)), Fraction(float(y))
        expected = abs(exact_x) % abs(exact_y)
        assert Fraction(float(r)) == (expected if exact_x >= 0 else -expected), (x, y, r)

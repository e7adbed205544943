"""Minimax polynomials behind core/math: `python tools/minimax.py [name ...]` prints coefficients.

Each entry of FITS names a function, an interval, a degree and a target precision. The fit is a
Remez exchange on a dense Chebyshev grid; the leading coefficients are rounded to the target one by
one, lowest first, and the rest is fitted again to what remains, so rounding costs no accuracy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from mpmath import mp, mpf

mp.dps = 50

Function = Callable[[mpf], mpf]


def round_to(x: mpf, bits: int) -> mpf:
    """x rounded to a mantissa of so many bits."""
    if x == 0:
        return mpf(0)
    _, exponent = mp.frexp(x)
    scale = mpf(2) ** (bits - exponent)
    return mp.nint(x * scale) / scale


def chebyshev_grid(low: mpf, high: mpf, count: int) -> list[mpf]:
    """Interior points, denser towards the ends; an even number keeps away from the middle."""
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle - half * mp.cos(mp.pi * (i + mpf(1) / 2) / count) for i in range(count)]


def solve(points: list[mpf], values: list[mpf], weights: list[mpf], degree: int) -> list[mpf]:
    """The polynomial whose weighted error alternates with equal size over the points."""
    rows = degree + 2
    matrix = mp.matrix(rows, rows)
    for i, (x, w) in enumerate(zip(points, weights, strict=True)):
        for j in range(degree + 1):
            matrix[i, j] = x**j
        matrix[i, degree + 1] = (-1) ** i / w
    return list(mp.lu_solve(matrix, mp.matrix(values)))[: degree + 1]


def remez(
    xs: list[mpf], values: list[mpf], weights: list[mpf], degree: int
) -> tuple[list[mpf], mpf]:
    """Coefficients (lowest first) and the largest weighted error on the grid xs."""
    count = degree + 2
    chosen = [int((i + 0.5) * len(xs) / count) for i in range(count)]
    coefficients: list[mpf] = []
    worst = mpf(0)
    for _ in range(12):
        coefficients = solve(
            [xs[i] for i in chosen],
            [values[i] for i in chosen],
            [weights[i] for i in chosen],
            degree,
        )
        errors = [
            (mp.polyval(coefficients[::-1], x) - v) * w
            for x, v, w in zip(xs, values, weights, strict=True)
        ]
        # One extremum per run of equal sign, then the best alternating window of `count`.
        extrema: list[int] = []
        for i, error in enumerate(errors):
            if extrema and (errors[extrema[-1]] > 0) == (error > 0):
                if abs(error) > abs(errors[extrema[-1]]):
                    extrema[-1] = i
            else:
                extrema.append(i)
        while len(extrema) > count:
            extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
        worst = max(abs(e) for e in errors)
        if len(extrema) < count or extrema == chosen:
            break
        chosen = extrema
    return coefficients, worst


@dataclass(frozen=True)
class Fit:
    function: Function
    low: mpf
    high: mpf
    degree: int
    bits: int  # 24 for float32, 53 for float64
    weight: Function  # error is measured as weight(x) * (p(x) - f(x))
    fixed: int = 2  # how many coefficients are rounded before the rest is fitted again

    def coefficients(self) -> tuple[list[mpf], mpf]:
        xs = chebyshev_grid(mpf(self.low), mpf(self.high), 24 * (self.degree + 2))
        values = [self.function(x) for x in xs]
        weights = [self.weight(x) for x in xs]
        rounded: list[mpf] = []
        for step in range(self.fixed + 1):
            rest, worst = remez(xs, values, weights, self.degree - step)
            if step == self.fixed or self.degree == step:
                rounded += [round_to(c, self.bits) for c in rest]
                break
            lowest = round_to(rest[0], self.bits)
            rounded.append(lowest)
            values = [(v - lowest) / x for v, x in zip(values, xs, strict=True)]
            weights = [w * x for w, x in zip(weights, xs, strict=True)]
        return rounded, worst


def hexadecimal(x: mpf, bits: int) -> str:
    text = float(x).hex().replace("0x1.0000000000000p", "0x1p")
    if bits == 24:
        head, exponent = text.split("p")
        return f"{head.rstrip('0').rstrip('.')}p{exponent}f"
    return text


LN2_HALF = mp.log(2) / 2
QUARTER_PI = mp.pi / 4


def exp_tail(r: mpf) -> mpf:
    return (mp.expm1(r) - r) / r**2


def atanh_tail(z: mpf) -> mpf:
    s = mp.sqrt(z)
    return (mp.atanh(s) / s - 1 - z / 3) / z**2


def log_tail(f: mpf) -> mpf:
    return (mp.log1p(f) - f + f**2 / 2) / f**3


def odd_tail(function: Function) -> Function:
    """(f(x) / x - 1) / x^2 as a function of z = x^2."""

    def tail(z: mpf) -> mpf:
        x = mp.sqrt(z)
        return (function(x) / x - 1) / z

    return tail


def odd_weight(function: Function) -> Function:
    """Makes the error of x + x z p(z) relative to f(x)."""

    def weight(z: mpf) -> mpf:
        x = mp.sqrt(z)
        return x * z / function(x)

    return weight


def cos_tail(z: mpf) -> mpf:
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2


def erfcx(t: mpf) -> mpf:
    return mp.exp(t * t) * mp.erfc(t)


def tail_in_w(shift: float) -> Function:
    """erfcx(t) (t + shift) as a function of w = (t - shift) / (t + shift)."""

    def tail(w: mpf) -> mpf:
        t = shift * (1 + w) / (1 - w)
        return erfcx(t) * (t + shift)

    return tail


def w_of(t: float, shift: float) -> mpf:
    return (mpf(t) - shift) / (mpf(t) + shift)


def relative(function: Function) -> Function:
    return lambda x: 1 / function(x)


def erf_tail(z: mpf) -> mpf:
    x = mp.sqrt(z)
    return mp.erf(x) / x - 1


def erf_weight(z: mpf) -> mpf:
    return 1 / (1 + erf_tail(z))


def lgamma_tail(d: mpf) -> mpf:
    return mp.loggamma(2 + d) / d


R_MAX = LN2_HALF * mpf("1.002")
ANGLE = (QUARTER_PI * mpf("1.001")) ** 2

FITS: dict[str, Fit] = {
    "exp_f32": Fit(exp_tail, -R_MAX, R_MAX, 4, 24, lambda r: r**2 * mp.exp(-r)),
    "exp_f64": Fit(exp_tail, -R_MAX, R_MAX, 10, 53, lambda r: r**2 * mp.exp(-r)),
    "expm1_f32": Fit(exp_tail, -R_MAX, R_MAX, 5, 24, lambda r: r**2 / abs(mp.expm1(r))),
    "log_f32": Fit(log_tail, -mpf(1) / 3, mpf(1) / 3, 7, 24, lambda f: f**3 / mp.log1p(f)),
    "atanh_f64": Fit(atanh_tail, mpf(0), mpf("0.04001"), 8, 53, lambda z: z**2),
    "sin_f32": Fit(odd_tail(mp.sin), mpf(0), ANGLE, 3, 24, odd_weight(mp.sin)),
    "sin_f64": Fit(odd_tail(mp.sin), mpf(0), ANGLE, 6, 53, odd_weight(mp.sin)),
    "cos_f32": Fit(cos_tail, mpf(0), ANGLE, 2, 24, lambda z: z**2),
    "cos_f64": Fit(cos_tail, mpf(0), ANGLE, 5, 53, lambda z: z**2),
    "atan_f64": Fit(odd_tail(mp.atan), mpf(0), mpf(1), 19, 53, odd_weight(mp.atan)),
    "asin_f64": Fit(odd_tail(mp.asin), mpf(0), mpf("0.2501"), 12, 53, odd_weight(mp.asin)),
    "sinh_f64": Fit(odd_tail(mp.sinh), mpf(0), mpf(1), 7, 53, odd_weight(mp.sinh)),
    "erf_f32": Fit(erf_tail, mpf(0), mpf("0.81"), 6, 24, erf_weight),
    "erf_f64": Fit(erf_tail, mpf(0), mpf(1), 13, 53, erf_weight),
    "erfcx_f32": Fit(tail_in_w(3), mpf(-1), w_of(10.5, 3), 10, 24, relative(tail_in_w(3)), 0),
    "erfcx_f64": Fit(tail_in_w(4.5), mpf(-1), w_of(28, 4.5), 23, 53, relative(tail_in_w(4.5)), 0),
    "lgamma_f64": Fit(lgamma_tail, mpf("-0.5"), mpf("0.5"), 18, 53, relative(lgamma_tail)),
}


def main(names: list[str]) -> None:
    for name in names or list(FITS):
        fit = FITS[name]
        coefficients, worst = fit.coefficients()
        print(f"{name}: weighted error 2^{float(mp.log(worst, 2)):.1f}")
        for c in coefficients:
            print(f"    {hexadecimal(c, fit.bits)},")


if __name__ == "__main__":
    main(sys.argv[1:])

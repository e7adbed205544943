"""Element-wise operations made of others, and the second names of those written in C++."""

from __future__ import annotations

from typing import Any

from weft import _core
from weft.ops._composed import alias, composed

Tensor = _core.Tensor
ops = _core.ops

for _name, _of in {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "clip": "clamp",
    "divide": "div",
    "fix": "trunc",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "sgn": "sign",  # they differ for complex numbers only
    "subtract": "sub",
    "true_divide": "div",
}.items():
    alias(_name, _of)

for _name, _of in {
    "digamma": "digamma",
    "erf": "erf",
    "erfc": "erfc",
    "erfinv": "erfinv",
    "exp2": "exp2",
    "expit": "sigmoid",
    "expm1": "expm1",
    "gammaln": "lgamma",
    "log1p": "log1p",
    "logit": "logit",
    "psi": "digamma",
    "polygamma": "polygamma",
    "round": "round",
    "sinc": "sinc",
    "xlogy": "xlogy",
}.items():
    alias(_name, _of, namespace="special")


@composed()
def positive(input: Tensor) -> Tensor:
    """Returns ``input`` itself: ``+x``."""
    if input.dtype is _core.bool:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


def _check_tensor(value: Any, function: str, argument: str, position: int) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{function}(): argument '{argument}' (position {position}) must be Tensor, "
            f"not {type(value).__name__}"
        )


@composed(name="where", kinds="method")
def where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """``self`` where ``condition`` holds, ``other`` elsewhere."""
    return ops["where"](condition, self, other)


@composed(kinds="function out")
def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """``other - alpha * input``."""
    _check_tensor(input, "rsub", "input", 1)
    return ops["sub"](other, input, alpha=alpha)


@composed(kinds="function method out")
def float_power(input: Any, exponent: Any) -> Tensor:
    """``input ** exponent``, computed and returned in double precision whatever the dtypes are."""
    if not isinstance(input, Tensor) and not isinstance(exponent, Tensor):
        raise TypeError("float_power() received two numbers: base or exponent must be a Tensor")
    return ops["pow"](_as_double(input), _as_double(exponent))


@composed(name="float_power_", kinds="method")
def float_power_in_place(self: Tensor, exponent: Any) -> Tensor:
    """:func:`float_power`, written into the tensor, which must be of double precision."""
    if self.dtype is not _core.float64:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {self.dtype} but the operation's result "
            "requires dtype float64"
        )
    return self.pow_(_as_double(exponent))


def _as_double(value: Any) -> Any:
    return value.to(_core.float64) if isinstance(value, Tensor) else float(value)


@composed(kinds="function method inplace out")
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """``input * 2 ** other``."""
    _check_tensor(input, "ldexp", "input", 1)
    _check_tensor(other, "ldexp", "other", 2)
    common = _core.promote_types(input.dtype, other.dtype)
    if not common.is_floating_point:
        common = _core.get_default_dtype()
    return input * ops["pow"](2.0, other.to(common))


@composed(kinds="function method out")
def polygamma(n: int, input: Tensor) -> Tensor:
    """The ``n``-th derivative of the digamma function."""
    if isinstance(n, Tensor):  # tensor.polygamma(n)
        n, input = input, n
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if n < 2:
        return ops["trigamma" if n else "digamma"](input)
    return ops["higher_polygamma"](input, n)


# -- closeness ---------------------------------------------------------------------------


@composed()
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Where ``abs(input - other) <= atol + rtol * abs(other)``."""
    _check_tensor(input, "isclose", "input", 1)
    _check_tensor(other, "isclose", "other", 2)
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{input.dtype} did not match {other.dtype}")
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not tolerance >= 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {tolerance}")
    close = input == other
    if equal_nan and input.is_floating_point():
        close = close | ((input != input) & (other != other))
    if rtol == 0 and atol == 0:
        return close
    # Integers would wrap around, and have no fractions of a tolerance.
    if not input.is_floating_point():
        wide = _core.float64 if input.dtype is _core.int64 else _core.get_default_dtype()
        input, other = input.to(wide), other.to(wide)
    error = ops["abs"](input - other)
    allowed = ops["abs"](other * rtol) + atol
    return close | (ops["isfinite"](error) & (error <= allowed))


@composed()
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements are close, as :func:`isclose` defines it."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@composed()
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether the two have the same shape and the same elements."""
    _check_tensor(input, "equal", "input", 1)
    _check_tensor(other, "equal", "other", 2)
    return input.shape == other.shape and not bool((input != other).any())


# Python 2's names of the division operators, which PyTorch has kept.
for _python_2, _python_3 in {"__div__": "__truediv__", "__idiv__": "__itruediv__"}.items():
    setattr(Tensor, _python_2, getattr(Tensor, _python_3))


@composed(name="__rdiv__", kinds="method")
def reflected_division(self: Tensor, other: Any) -> Tensor:
    """``other / self``."""
    product: Tensor = self.reciprocal() * other
    return product

"""The limits of the number types: `finfo` and `iinfo`, with PyTorch's attributes and text."""

from __future__ import annotations

from typing import Any, NamedTuple


class _FloatFormat(NamedTuple):
    """Total bits, bits of the significand (the hidden one included), and the exponent of the
    largest power of two the format holds."""

    bits: int
    significand: int
    largest_exponent: int


_FLOAT_FORMATS = {
    "float16": _FloatFormat(16, 11, 15),
    "bfloat16": _FloatFormat(16, 8, 127),
    "float32": _FloatFormat(32, 24, 127),
    "float64": _FloatFormat(64, 53, 1023),
}
_PART_OF_COMPLEX = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
_INTEGER_BITS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}
_LOG10_OF_2 = 0.30102999566398120


def _name_of(dtype: Any, function: str) -> str:
    """`float32` for `weft.float32`; a TypeError for what is no dtype."""
    if type(dtype).__name__ != "dtype":
        raise TypeError(
            f"{function}(): argument 'type' (position 1) must be torch.dtype, "
            f"not {type(dtype).__name__}"
        )
    return str(dtype).rpartition(".")[2]


class _Limits:
    """A value that is read, compared and hashed by its fields, and never changes."""

    __slots__ = ()

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        kind = type(self).__name__
        raise AttributeError(f"attribute {name!r} of 'torch.{kind}' objects is not writable")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


class finfo(_Limits):
    """The limits of a floating-point type (the default one if none is given).

    Attributes:
        bits: the bits one number takes.
        eps: the gap between 1 and the next larger number.
        max, min: the largest and the most negative finite number.
        smallest_normal: the smallest positive number of full precision; `tiny` is the same.
        resolution: 10 to the power of minus the decimal digits that always survive.
        dtype: the name of the type.
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    bits: int
    dtype: str
    eps: float
    max: float
    min: float
    resolution: float
    smallest_normal: float
    tiny: float

    def __init__(self, type: Any = None) -> None:
        if type is None:
            import weft  # here, because weft imports this module while being imported itself

            type = weft.get_default_dtype()
        name = _name_of(type, "finfo")
        name = _PART_OF_COMPLEX.get(name, name)
        if name not in _FLOAT_FORMATS:
            raise TypeError(
                f"torch.finfo() requires a floating point input type, got {name}. "
                "Use torch.iinfo for integer types"
            )
        layout = _FLOAT_FORMATS[name]
        eps = 2.0 ** (1 - layout.significand)
        largest = (2.0 - eps) * 2.0**layout.largest_exponent
        smallest_normal = 2.0 ** (1 - layout.largest_exponent)
        # A decimal of this many digits survives the way into the format and back.
        digits = int((layout.significand - 1) * _LOG10_OF_2)
        self._set(
            bits=layout.bits,
            dtype=name,
            eps=eps,
            max=largest,
            min=-largest,
            resolution=float(f"1e-{digits}"),
            smallest_normal=smallest_normal,
            tiny=smallest_normal,
        )

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )


class iinfo(_Limits):
    """The limits of an integer type: `bits`, `max`, `min`, and its name as `dtype`."""

    __slots__ = ("bits", "dtype", "max", "min")

    bits: int
    dtype: str
    max: int
    min: int

    def __init__(self, type: Any) -> None:
        name = _name_of(type, "iinfo")
        if name == "bool":
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if name not in _INTEGER_BITS:
            raise TypeError(
                f"torch.iinfo() requires an integer input type, got {name}. "
                "Use torch.finfo for floating point types"
            )
        bits = _INTEGER_BITS[name]
        unsigned = name.startswith("u")
        self._set(
            bits=bits,
            dtype=name,
            max=2**bits - 1 if unsigned else 2 ** (bits - 1) - 1,
            min=0 if unsigned else -(2 ** (bits - 1)),
        )

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

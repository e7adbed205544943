"""Layers that widen signals, images and volumes at their ends."""

from __future__ import annotations

from collections.abc import Sequence

from weft._core import Tensor
from weft.nn import functional as F
from weft.nn.modules.module import Module

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]

Sizes = int | Sequence[int]


class _PadNd(Module):
    """A subclass names what is put there, and at how many dimensions."""

    padding: tuple[int, ...]
    _mode: str
    _spatial: int

    def __init__(self, padding: Sizes) -> None:
        super().__init__()
        sides = 2 * self._spatial
        self.padding = (padding,) * sides if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


# -- a constant ---------------------------------------------------------------------------------


class _ConstantPadNd(_PadNd):
    _mode = "constant"
    value: float

    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Puts ``value`` before and after a signal: ``padding`` is a number or (left, right)."""

    _spatial = 1


class ConstantPad2d(_ConstantPadNd):
    """Puts ``value`` around an image: ``padding`` is a number or (left, right, top, bottom).

    >>> weft.nn.ConstantPad2d((1, 0, 0, 0), 7.0)(weft.zeros(1, 1, 2))
    tensor([[[7., 0., 0.]]])
    """

    _spatial = 2


class ConstantPad3d(_ConstantPadNd):
    """Puts ``value`` around a volume: (left, right, top, bottom, front, back)."""

    _spatial = 3


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding: Sizes) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPadNd):
    """Puts zeros before and after a signal."""

    _spatial = 1


class ZeroPad2d(_ZeroPadNd):
    """Puts zeros around an image."""

    _spatial = 2


class ZeroPad3d(_ZeroPadNd):
    """Puts zeros around a volume."""

    _spatial = 3


# -- what is there already ----------------------------------------------------------------------


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Widens a signal by its mirror image, without repeating the outermost element."""

    _spatial = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Widens an image by its mirror image, without repeating the outermost pixels."""

    _spatial = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Widens a volume by its mirror image, without repeating the outermost elements."""

    _spatial = 3


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Widens a signal by repeating its outermost elements."""

    _spatial = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Widens an image by repeating its outermost pixels."""

    _spatial = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Widens a volume by repeating its outermost elements."""

    _spatial = 3


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        least = self._spatial + 1
        if input.ndim not in (least, least + 1):
            raise ValueError(f"expected {least}D or {least + 1}D input (got {input.ndim}D input)")
        return F.pad(input, self.padding, "circular")


class CircularPad1d(_CircularPadNd):
    """Widens a signal by its other end."""

    _spatial = 1


class CircularPad2d(_CircularPadNd):
    """Widens an image by its opposite sides."""

    _spatial = 2


class CircularPad3d(_CircularPadNd):
    """Widens a volume by its opposite sides."""

    _spatial = 3

"""The shape of a tensor: a tuple of integers that knows their product."""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import index
from typing import Any, SupportsIndex, overload


class Size(tuple[int, ...]):
    """What `tensor.shape` and `tensor.size()` return. It prints as PyTorch's does."""

    __slots__ = ()

    def __new__(cls, sizes: Iterable[SupportsIndex] = ()) -> Size:
        checked = []
        for position, size in enumerate(sizes):
            try:
                checked.append(index(size))
            except TypeError:
                raise TypeError(
                    f"torch.Size() takes an iterable of 'int' "
                    f"(item {position} is '{type(size).__name__}')"
                ) from None
        return super().__new__(cls, checked)

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    @overload
    def __getitem__(self, key: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, key: slice) -> Size: ...
    def __getitem__(self, key: Any) -> Any:
        item = super().__getitem__(key)
        return Size(item) if isinstance(key, slice) else item

    def __add__(self, other: Any) -> Size:
        if not isinstance(other, tuple):
            raise TypeError(
                f'can only concatenate tuple (not "{type(other).__name__}") to torch.Size'
            )
        return Size((*self, *other))

    def __radd__(self, other: Any) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return Size((*other, *self))

    def __mul__(self, times: SupportsIndex) -> Size:
        return Size(super().__mul__(times))

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[Any, ...]:
        return (Size, (tuple(self),))

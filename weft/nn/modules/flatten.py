"""Dimensions folded into one, and unfolded again."""

from __future__ import annotations

from typing import Any

from weft._core import Tensor
from weft.nn.modules.module import Module


class Flatten(Module):
    """Folds the dimensions from ``start_dim`` to ``end_dim`` into one.

    >>> weft.nn.Flatten()(weft.zeros(32, 1, 5, 5)).shape
    torch.Size([32, 25])
    """

    start_dim: int
    end_dim: int

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Unfolds one dimension into several.

    >>> weft.nn.Unflatten(1, (2, 5, 5))(weft.zeros(2, 50)).shape
    torch.Size([2, 2, 5, 5])
    """

    dim: Any
    unflattened_size: Any

    def __init__(self, dim: int | str, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(
                "invalid argument type for dim parameter: expected int, found "
                f"{type(dim).__name__} (tensors of weft have no dimension names)"
            )
        if not isinstance(unflattened_size, tuple | list):
            raise TypeError(
                "unflattened_size must be a tuple of ints, but found type "
                f"{type(unflattened_size).__name__}"
            )
        for place, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {place}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"

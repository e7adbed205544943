"""Linear algebra: norms, products, decompositions, solvers."""

from typing import TYPE_CHECKING

from weft.ops import operations

__all__ = sorted(operations("linalg"))

if not TYPE_CHECKING:
    globals().update(operations("linalg"))

"""Linear algebra: norms, products, decompositions, solvers."""

from typing import TYPE_CHECKING

from weft import ops

__all__ = sorted(ops.operations("linalg"))

if not TYPE_CHECKING:
    globals().update(ops.operations("linalg"))

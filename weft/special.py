"""Special functions."""

from typing import TYPE_CHECKING

from weft import ops

__all__ = sorted(ops.operations("special"))

if not TYPE_CHECKING:
    globals().update(ops.operations("special"))

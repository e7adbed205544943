"""Special functions."""

from typing import TYPE_CHECKING

from weft.ops import operations

__all__ = sorted(operations("special"))

if not TYPE_CHECKING:
    globals().update(operations("special"))

"""Handles that take a hook away again."""

from weft.autograd._handles import RemovableHandle

__all__ = ["RemovableHandle"]

"""Which line put a module into evaluation mode: the doctor names it."""

from __future__ import annotations

import weakref
from typing import Any

from weft._callers import Line, calling_line

_lines: weakref.WeakKeyDictionary[Any, Line | None] = weakref.WeakKeyDictionary()


def note_evaluation(module: Any) -> None:
    """Called by ``eval()``."""
    _lines[module] = calling_line()


def left_training_at(module: Any) -> Line | None:
    """The line of the last ``eval()``, if it is known."""
    return _lines.get(module)

"""Which line of the user's program is running, seen from inside weft's own Python."""

from __future__ import annotations

import os
import sys
from types import FrameType

_ROOT = os.path.dirname(os.path.abspath(__file__)) + os.sep
_DEMO = os.path.join(_ROOT, "demo") + os.sep  # written as a user would

Line = tuple[str, int]


def is_own_file(filename: str) -> bool:
    """Whether a file belongs to weft itself."""
    return filename.startswith((_ROOT, "<frozen ")) and not filename.startswith(_DEMO)


def calling_frame() -> FrameType | None:
    """The innermost frame that is not weft's own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def calling_line() -> Line | None:
    """File and line of that frame."""
    frame = calling_frame()
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)

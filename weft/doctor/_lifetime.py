"""What the doctor does at the end of a program, and how it starts afresh."""

from __future__ import annotations

import atexit

from weft import _core
from weft.doctor import _chains, _findings, _modes, _parameters

_at_exit = False


def judge_at_exit() -> None:
    """From now on something may be left to judge when the program ends."""
    global _at_exit
    if not _at_exit:
        _at_exit = True
        atexit.register(finish)


def finish() -> None:
    """Reports what only the end of the program makes certain: nothing comes that could mend it.

    Called when the interpreter exits, and by ``weft doctor``.
    """
    _modes.finish()
    _parameters.finish()
    _chains.finish()


def clear() -> None:
    """Forgets what has been found and what was being watched: the next program starts afresh."""
    _findings.clear()
    _modes.forget()
    _parameters.forget()
    _chains.forget()
    _core._forget_steps()

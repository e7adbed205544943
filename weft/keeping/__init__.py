"""Keeping tensors and whole training runs in files, without code in them.

`weft.save`, `weft.load` and `weft.checkpoint` live here, and the exceptions they raise.
"""

from weft.keeping._api import load, save
from weft.keeping._checkpoint import Checkpoint, checkpoint
from weft.keeping._errors import DamagedFileError, RefusedFileError

__all__ = ["Checkpoint", "DamagedFileError", "RefusedFileError", "checkpoint", "load", "save"]

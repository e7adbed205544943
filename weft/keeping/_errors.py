"""What is wrong with a file."""

from __future__ import annotations

from pickle import UnpicklingError


class DamagedFileError(RuntimeError):
    """The file is not whole, not what it says it is, or of no format that weft reads."""

    __module__ = "weft.keeping"


class RefusedFileError(DamagedFileError, UnpicklingError):
    """The file is whole but holds more than data (or data that weft has no place for)."""

    __module__ = "weft.keeping"


class Quoted(str):
    """Text out of a file, for a message: shortened, and without characters that do not print."""

    def __new__(cls, value: object) -> Quoted:
        text = value if isinstance(value, str) else repr(value)
        shown = text if len(text) <= 80 else f"{text[:60]}...{text[-15:]}"
        return super().__new__(cls, ascii(shown))

"""Settings of a library that this build does not use; programs may set them all the same."""

from __future__ import annotations

enabled = False
benchmark = False
deterministic = True
allow_tf32 = False


def is_available() -> bool:
    """Whether the library can be used."""
    return False


def version() -> int | None:
    """The version of the library: none."""
    return None

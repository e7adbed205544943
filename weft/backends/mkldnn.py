"""The library of matrix products and convolutions (oneDNN)."""

from __future__ import annotations

from weft import _core


def is_available() -> bool:
    """Whether the library was found; without it weft computes with kernels of its own."""
    return "oneDNN" in _core.describe_products()

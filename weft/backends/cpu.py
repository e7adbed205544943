"""The processor."""

from __future__ import annotations

from weft import _core


def get_cpu_capability() -> str:
    """The instruction set the kernels in use were compiled for: DEFAULT, AVX2 or AVX512."""
    name: str = _core.cpu_capability()
    return "DEFAULT" if name == "baseline" else name.upper()

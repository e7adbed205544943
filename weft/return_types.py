"""The named tuples that operations with several results return: ``weft.return_types.max``."""

from typing import Any

from weft import _core


def __getattr__(name: str) -> Any:
    if name in _core.result_types:
        return _core.result_types[name]
    raise AttributeError(f"module 'weft.return_types' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(_core.result_types)

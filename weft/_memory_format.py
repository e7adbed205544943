"""In which order the elements of a tensor lie in memory: `memory_format` and `layout`."""

from __future__ import annotations

from typing import Final


class memory_format:
    """An order of dimensions in memory, as `tensor.contiguous(memory_format=...)` takes it."""

    __slots__ = ("_name", "_number")

    def __init__(self, name: str, number: int) -> None:
        self._name = name
        self._number = number  # what the core calls it

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class layout:
    """How the elements of a tensor are kept. weft has dense tensors: `strided`."""

    __slots__ = ("_is_strided", "_name")

    def __init__(self, name: str, is_strided: bool) -> None:
        self._name = name
        self._is_strided = is_strided

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


# Found by pickle under `weft`, where everybody else finds them, too.
memory_format.__module__ = layout.__module__ = "weft"

contiguous_format: Final = memory_format("contiguous_format", 0)
preserve_format: Final = memory_format("preserve_format", 1)
channels_last: Final = memory_format("channels_last", 2)
channels_last_3d: Final = memory_format("channels_last_3d", 3)

strided: Final = layout("strided", True)

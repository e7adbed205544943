"""The memory behind a tensor, as `tensor.untyped_storage()` and `tensor.storage()` show it."""

from __future__ import annotations

from typing import Any

from weft import _core


class UntypedStorage:
    """A piece of memory, in bytes. Tensors that are views of each other have the same one."""

    __slots__ = ("_bytes",)

    def __init__(self, tensor: Any) -> None:
        self._bytes = _core._storage_bytes(tensor)

    device = property(lambda self: self._bytes.device)

    def data_ptr(self) -> int:
        """The address of the first byte."""
        address: int = self._bytes.data_ptr()
        return address

    def nbytes(self) -> int:
        """The number of bytes."""
        count: int = self._bytes.numel()
        return count

    size = __len__ = nbytes

    def element_size(self) -> int:
        return 1

    def tolist(self) -> list[int]:
        """The bytes as integers."""
        values: list[int] = self._bytes.tolist()
        return values

    def __getitem__(self, index: Any) -> int:
        value: int = self._bytes[index].item()
        return value

    def is_shared(self) -> bool:
        """Whether forked processes see the same memory."""
        shared: bool = _core._is_shared(self._bytes)
        return shared

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, UntypedStorage)
            and self.data_ptr() == other.data_ptr()
            and self.nbytes() == other.nbytes()
        )

    def __hash__(self) -> int:
        return hash((self.data_ptr(), self.nbytes()))

    def __repr__(self) -> str:
        return f"[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"


class TypedStorage:
    """The same memory, counted in the elements of the tensor that was asked."""

    __slots__ = ("_untyped", "dtype")

    def __init__(self, tensor: Any) -> None:
        self._untyped = UntypedStorage(tensor)
        self.dtype = tensor.dtype

    device = property(lambda self: self._untyped.device)

    def untyped(self) -> UntypedStorage:
        """The memory in bytes."""
        return self._untyped

    def data_ptr(self) -> int:
        return self._untyped.data_ptr()

    def nbytes(self) -> int:
        return self._untyped.nbytes()

    def element_size(self) -> int:
        size: int = self.dtype.itemsize
        return size

    def size(self) -> int:
        """The number of elements."""
        return self.nbytes() // self.element_size()

    __len__ = size

    def _elements(self) -> Any:
        return _core._over_storage(self._untyped._bytes, self.dtype, (self.size(),), (1,), 0)

    def tolist(self) -> list[Any]:
        values: list[Any] = self._elements().tolist()
        return values

    def __getitem__(self, index: Any) -> Any:
        return self._elements()[index].item()

    def is_shared(self) -> bool:
        return self._untyped.is_shared()

    def __repr__(self) -> str:
        return (
            f"[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) "
            f"of size {self.size()}]"
        )

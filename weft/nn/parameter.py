"""A tensor that a module trains."""

from __future__ import annotations

from typing import Any

from weft import _core
from weft._printing import parameter_repr


class Parameter(_core.Tensor):
    """A tensor that a module lists among its parameters when it is assigned to an attribute.

    It is a mark and nothing more: what operations make of it are plain tensors.
    """

    __torch_function__ = _core._disabled_torch_function_impl

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            data = _core.tensor([])
        if type(data) is _core.Tensor or type(data) is Parameter:
            return _core.Tensor._make_subclass(cls, data, requires_grad)
        # Of a class of the user's own the object stays what it is, and is marked.
        result = data.detach().requires_grad_(requires_grad)
        if type(result) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires "
                "that detach() returns an instance of the same type, but "
                f"{type(result).__name__} was found"
            )
        result._is_param = True
        return result

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        return parameter_repr(self)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        state = self.__getstate__()
        arguments = (type(self), self.detach(), self.requires_grad)
        return (_rebuild, arguments, state) if state else (_rebuild, arguments)


def _rebuild(cls: Any, data: Any, requires_grad: bool) -> Any:
    return _core.Tensor._make_subclass(cls, data, requires_grad)

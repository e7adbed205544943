"""Tensors that a module keeps: those it trains, and those it carries along."""

from __future__ import annotations

from typing import Any

from weft import _core
from weft._printing import parameter_repr


class _MarkedType(type):
    """`isinstance(x, Parameter)` also holds for tensors of other classes that carry the mark."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        mark: str = cls.__dict__.get("_mark", "")
        return mark != "" and isinstance(instance, _core.Tensor) and hasattr(instance, mark)


class Parameter(_core.Tensor, metaclass=_MarkedType):
    """A tensor that a module lists among its parameters when it is assigned to an attribute.

    It is a mark and nothing more: what operations make of it are plain tensors.
    """

    _mark = "_is_param"
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


class Buffer(_core.Tensor, metaclass=_MarkedType):
    """A tensor that a module lists among its buffers when it is assigned to an attribute.

    With ``persistent=False`` it is left out of ``state_dict()``. The object is a plain tensor that
    carries the mark.
    """

    _mark = "_is_buffer"
    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        if data is None:
            data = _core.tensor([])
        result = data.detach().requires_grad_(data.requires_grad)
        result.persistent = persistent
        result._is_buffer = True
        return result

    __torch_function__ = _core._disabled_torch_function_impl


class _Uninitialised(_core.Tensor):
    """What a parameter or buffer is before its shape is known."""

    _kind = ""
    cls_to_become: Any = None

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Gives the tensor its shape, in place; the values are uninitialised."""
        device = self.data.device if device is None else device
        dtype = self.data.dtype if dtype is None else dtype
        self.data = _core.ops["empty"](shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    def _refuse(self) -> Any:
        raise RuntimeError(
            f"Can't access the shape of an uninitialized {self._kind}. This error usually happens "
            "in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    @property
    def shape(self) -> Any:
        return self._refuse()

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )


def is_lazy(tensor: Any) -> bool:
    """Whether the tensor's shape is not known yet."""
    return isinstance(tensor, _Uninitialised)


class UninitializedParameter(_Uninitialised, Parameter):
    """A parameter whose shape is found out by the first forward: see ``materialize``."""

    _kind = "parameter"
    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        data = _core.ops["empty"](0, device=device, dtype=dtype)
        return _core.Tensor._make_subclass(cls, data, requires_grad)

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (type(self), (self.requires_grad, None, self.data.dtype))


class UninitializedBuffer(_Uninitialised):
    """A buffer whose shape is found out by the first forward: see ``materialize``."""

    _kind = "buffer"
    cls_to_become = _core.Tensor

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> Any:
        data = _core.ops["empty"](0, device=device, dtype=dtype)
        result = _core.Tensor._make_subclass(cls, data, requires_grad)
        result.persistent = persistent
        result._is_buffer = True
        return result

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        return f"<{type(self).__name__}>"

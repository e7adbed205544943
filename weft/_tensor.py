"""What a tensor can do that is not worth C++: printing, copying, pickling, lists, numpy, DLPack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import _core
from weft._memory_format import strided
from weft._printing import tensor_format, tensor_repr
from weft._size import Size

Tensor = _core.Tensor

_CPU = 1  # DLPack's number for a device


# -- Tensor(...) ------------------------------------------------------------------------------


def construct(*args: Any, device: Any = None) -> Any:
    """What ``Tensor(...)`` makes: of sizes an uninitialised tensor, of a sequence its values."""
    return construct_of(_core.get_default_dtype(), *args, device=device)


def construct_of(dtype: Any, *args: Any, device: Any = None) -> Any:
    """The same for a given dtype: what ``FloatTensor(...)`` and its kin make."""
    if device is not None and _core.device(device).type != "cpu":
        raise RuntimeError(f"Tensor(): device '{device}' is not available in this build of weft")
    if not args:
        return _core.tensor([], dtype=dtype)
    data = args[0]
    if len(args) == 1 and not _is_size(data):
        if isinstance(data, Tensor):
            return _core._alias(data)
        if isinstance(data, Size):
            return _uninitialised(tuple(data), dtype)
        if isinstance(data, str | bytes):
            raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
        if not hasattr(data, "__len__"):
            raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")
        return _core.tensor(data, dtype=dtype)
    if not all(_is_size(size) for size in args):
        kinds = ", ".join(type(argument).__name__ for argument in args)
        raise TypeError(
            f"new() received an invalid combination of arguments - got ({kinds}), but expected "
            "sizes as integers, one sequence of data, or one tensor"
        )
    return _uninitialised(args, dtype)


def _is_size(value: Any) -> bool:
    return hasattr(value, "__index__") and not hasattr(value, "__len__")


def _uninitialised(sizes: tuple[Any, ...], dtype: Any) -> Any:
    return _core.ops["empty"](sizes, dtype=dtype)


def _make_subclass(cls: Any, data: Any, require_grad: bool = False) -> Any:
    """Another tensor over the memory of ``data``, of this class and without history."""
    result = _core._as_subclass(data.detach(), cls)
    result.requires_grad_(require_grad)
    return result


def as_subclass(self: Any, cls: Any) -> Any:
    """Another tensor over the same memory, and with the same history, of class ``cls``."""
    return _core._as_subclass(self, cls)


# -- printing ---------------------------------------------------------------------------------


def __repr__(self: Any, *, tensor_contents: str | None = None) -> str:
    return tensor_repr(self)


def __format__(self: Any, spec: str) -> str:
    return tensor_format(self, spec)


def tolist(self: Any) -> Any:
    """The elements as (nested) lists of Python numbers; of a 0-dim tensor the number itself."""
    return _core._to_list(self)


# -- as a sequence ----------------------------------------------------------------------------


def __reversed__(self: Any) -> Any:
    """The elements of the first dimension in reverse, as one tensor."""
    return self if self.dim() == 0 else self.flip(0)


# -- copies -----------------------------------------------------------------------------------


def __copy__(self: Any) -> Any:
    """A tensor over the same memory, with the same attributes and without history."""
    result = _core._as_subclass(_core._alias(self), type(self))
    result.requires_grad_(self.requires_grad)
    result.__setstate__(self.__getstate__())
    return result


def __deepcopy__(self: Any, memo: dict[Any, Any]) -> Any:
    """A tensor over memory of its own; what shares memory in one deepcopy shares it in the copy."""
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            f"protocol at the moment, and this one comes from {self.grad_fn.name()}: copy its "
            "values with x.detach().clone()"
        )
    known = memo.get(id(self))
    if known is not None:
        return known
    import copy

    storage = _core._storage_bytes(self)
    key = ("weft storage", storage.data_ptr(), storage.numel())
    copied = memo.get(key)
    if copied is None:
        copied = memo[key] = storage.clone()
    result = _core._over_storage(
        copied, self.dtype, tuple(self.shape), self.stride(), self.storage_offset()
    )
    result = _core._as_subclass(result, type(self)) if type(self) is not Tensor else result
    result.requires_grad_(self.requires_grad)
    memo[id(self)] = result
    if self.grad is not None:
        result.grad = copy.deepcopy(self.grad, memo)
    result.__setstate__(copy.deepcopy(self.__getstate__(), memo))
    return result


def __reduce_ex__(self: Any, protocol: int) -> tuple[Any, ...]:
    reduce: Any = type(self).__reduce__
    if reduce is not object.__reduce__:
        return self.__reduce__()  # type: ignore[no-any-return]
    cls = None if type(self) is Tensor else type(self)
    # Of a view only the memory that its elements lie in.
    span = 0
    if self.numel():
        span = 1 + sum((n - 1) * s for n, s in zip(self.shape, self.stride(), strict=True))
    size, start = self.element_size(), self.storage_offset()
    memory = memoryview(_core._storage_bytes(self))[start * size : (start + span) * size]
    content: Any
    if protocol >= 5:
        import pickle

        content = pickle.PickleBuffer(memory)
    else:
        content = bytes(memory)
    arguments = (cls, content, self.dtype, tuple(self.shape), self.stride(), self.requires_grad)
    state = self.__getstate__()
    return (_rebuild, arguments, state) if state else (_rebuild, arguments)


def _rebuild(
    cls: Any, content: Any, dtype: Any, shape: Any, stride: Any, requires_grad: bool
) -> Any:
    """The other side of ``__reduce_ex__``."""
    if len(content):
        memory = _core.ops["empty"]((len(content),), dtype=_core.uint8)
        memoryview(memory)[:] = memoryview(content).cast("B")
    else:
        memory = _core.tensor([], dtype=_core.uint8)
    result = _core._over_storage(memory, dtype, shape, stride, 0)
    if cls is not None:
        result = _core._as_subclass(result, cls)
    return result.requires_grad_() if requires_grad else result


def __setstate__(self: Any, state: Any) -> None:
    in_dict, in_slots = state if isinstance(state, tuple) else (state, None)
    if in_dict:
        self.__dict__.update(in_dict)
    for name, value in (in_slots or {}).items():
        setattr(self, name, value)


# -- exchange ---------------------------------------------------------------------------------


def numpy(self: Any, *, force: bool = False) -> Any:
    """The elements as a numpy array over the same memory.

    A tensor that requires grad is refused, because numpy would not record anything: take
    ``tensor.detach().numpy()``, or ``force=True``, which does that for you.
    """
    if self.requires_grad:
        if not force:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. "
                "Use tensor.detach().numpy() instead."
            )
        self = self.detach()
    if self.dtype is _core.bfloat16:
        raise TypeError(
            "Got unsupported ScalarType BFloat16: numpy has no such type. "
            "Use tensor.float().numpy() instead."
        )
    import numpy as np

    return np.asarray(memoryview(self))


def __array__(self: Any, dtype: Any = None, copy: bool | None = None) -> Any:
    array = numpy(self)
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype)
    return array.copy() if copy else array


def __array_wrap__(self: Any, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
    """What numpy's functions give back for a tensor: a tensor."""
    return _core._from_buffer(array)


def __dlpack__(
    self: Any,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[Any, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """This tensor as a DLPack capsule, for other libraries to share its memory."""
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if stream is not None and stream != -1:
        raise AssertionError("stream should be None on cpu.")
    if dl_device is not None and int(dl_device[0]) != _CPU:
        raise BufferError(f"__dlpack__(): this tensor lies on the CPU, not on device {dl_device}")
    versioned = max_version is not None and max_version[0] >= 1
    return _core._to_dlpack(self.clone() if copy else self, versioned, bool(copy))


def __dlpack_device__(self: Any) -> tuple[int, int]:
    return (_CPU, 0)


def share_memory_(self: Any) -> Any:
    """Moves the tensor to memory that processes forked from now on share with this one."""
    _core._share_memory(self)
    return self


def is_shared(self: Any) -> bool:
    """Whether forked processes see the same memory."""
    shared: bool = _core._is_shared(self)
    return shared


def untyped_storage(self: Any) -> Any:
    """The memory behind this tensor, in bytes."""
    from weft._storage import UntypedStorage

    return UntypedStorage(self)


def storage(self: Any) -> Any:
    """The memory behind this tensor, in its elements."""
    from weft._storage import TypedStorage

    return TypedStorage(self)


def is_pinned(self: Any, device: Any = None) -> bool:
    return False


def pin_memory(self: Any, device: Any = None) -> Any:
    raise RuntimeError("Cannot access accelerator device when none is available.")


def get_device(self: Any) -> int:
    """The number of the device; -1 for the CPU."""
    index = self.device.index
    return -1 if index is None else int(index)


def is_conj(self: Any) -> bool:
    """Whether the tensor is the conjugate of its memory: real numbers are never kept so."""
    return False


is_neg = is_conj


def resolve_conj(self: Any) -> Any:
    """The tensor itself: its numbers are real."""
    return self


conj = resolve_neg = resolve_conj


# -- element by element in Python ---------------------------------------------------------------


def _check_element_wise(self: Any, name: str, function: Any) -> None:
    if self.requires_grad:
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. "
            f"Use var.detach().{name}() instead."
        )
    if not callable(function):
        raise TypeError(f"'{type(function).__name__}' object is not callable")


def apply_(self: Any, callable: Callable[[Any], Any]) -> Any:
    """Replaces every element by ``callable(element)``: slow, for what no operation does."""
    _check_element_wise(self, "apply_", callable)
    values = [callable(value) for value in self.reshape(-1).tolist()]
    return self.copy_(_core.tensor(values, dtype=self.dtype).reshape(self.shape))


def map_(self: Any, tensor: Any, callable: Callable[[Any, Any], Any]) -> Any:
    """Replaces every element by ``callable(element, that of the other tensor)``."""
    _check_element_wise(self, "map_", callable)
    _check_element_wise(tensor, "map_", callable)
    if tensor.dtype is not self.dtype:
        raise TypeError(f"map_: expected a tensor of {self.dtype}, not of {tensor.dtype}")
    others = tensor.expand(self.shape).reshape(-1).tolist()
    pairs = zip(self.reshape(-1).tolist(), others, strict=True)
    values = [callable(value, other) for value, other in pairs]
    return self.copy_(_core.tensor(values, dtype=self.dtype).reshape(self.shape))


_METHODS = (
    "__array__", "__array_wrap__", "__copy__", "__deepcopy__", "__dlpack__", "__dlpack_device__",
    "__format__", "__reduce_ex__", "__repr__", "__reversed__", "__setstate__", "apply_",
    "as_subclass", "conj", "get_device", "is_conj", "is_neg", "is_pinned", "is_shared", "map_",
    "numpy", "pin_memory", "resolve_conj", "resolve_neg", "share_memory_", "storage", "tolist",
    "untyped_storage",
)  # fmt: skip


def install() -> None:
    """Puts all of this on Tensor."""
    for name in _METHODS:
        method = globals()[name]
        method.__qualname__ = f"Tensor.{method.__name__}"
        setattr(Tensor, name, method)
    attributes = {
        "_make_subclass": staticmethod(_make_subclass),
        "layout": property(lambda self: strided, doc="Always `strided`: tensors are dense."),
        # Of two operands the tensor decides, not numpy's array.
        "__array_priority__": 1000,
        "__cuda_array_interface__": property(_no_cuda_interface),
    }
    for name, attribute in attributes.items():
        setattr(Tensor, name, attribute)


def _no_cuda_interface(self: Any) -> Any:
    raise AttributeError(
        "Can't get __cuda_array_interface__ on non-CUDA tensor type: "
        "use tensor.numpy(), this one lies on the CPU"
    )

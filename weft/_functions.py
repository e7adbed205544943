"""Functions of `weft` that are no operations: making tensors of what others hold, and questions."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from weft import _core
from weft._storage import TypedStorage, UntypedStorage

Tensor = _core.Tensor


# -- from what others hold --------------------------------------------------------------------


def from_numpy(ndarray: Any) -> Any:
    """A tensor over the memory of a numpy array: what is written to one is seen by the other."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(ndarray, numpy.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    if not ndarray.flags.writeable:
        warnings.warn(
            "The given NumPy array is not writable: do not write into this tensor, or take "
            "weft.tensor(array), which copies it.",
            UserWarning,
            stacklevel=2,
        )
    return _core._from_buffer(ndarray)


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Any:
    """A one-dimensional tensor over the memory of a buffer, from byte ``offset`` on."""
    result = _core._from_bytes(buffer, dtype, count, offset)
    return result.requires_grad_() if requires_grad else result


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor over the memory of another library's array (or of a DLPack capsule)."""
    if device is not None and _core.device(device).type != "cpu":
        raise RuntimeError(f"from_dlpack(): device '{device}' is not available in this build")
    export = getattr(ext_tensor, "__dlpack__", None)
    if export is None:
        if type(ext_tensor).__name__ != "PyCapsule":
            raise TypeError(
                "from_dlpack(): expected an array with __dlpack__ or a DLPack capsule, "
                f"not {type(ext_tensor).__name__}"
            )
        capsule = ext_tensor
    else:
        try:
            capsule = export(max_version=(1, 1))
        except TypeError:  # an exporter from before versions
            capsule = export()
    result = _core._from_dlpack(capsule)
    return result.clone() if copy else result


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """``data`` as a tensor, sharing memory (and history) with it where that is possible."""
    if isinstance(data, Tensor):
        if device is not None and _core.device(device) != data.device:
            data = data.to(device)
        return data if dtype is None or data.dtype is dtype else data.to(dtype)
    if hasattr(data, "__array_interface__") and data.ndim > 0:
        shared = _core._from_buffer(data)
        return shared if dtype is None or shared.dtype is dtype else shared.to(dtype)
    return _core.tensor(data, dtype=dtype, device=device)


def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Any:
    """``obj`` as a tensor: shared where possible, copied if ``copy``, refused if not ``copy``."""
    if isinstance(obj, Tensor) or hasattr(obj, "__array_interface__"):
        result = as_tensor(obj, dtype, device)
    elif hasattr(obj, "__dlpack__"):
        result = from_dlpack(obj)
        result = result if dtype is None or result.dtype is dtype else result.to(dtype)
    elif isinstance(obj, bytes | bytearray | memoryview):
        result = frombuffer(obj, dtype=dtype or _core.get_default_dtype())
    else:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        copy = None
        result = _core.tensor(obj, dtype=dtype, device=device)
    shares = isinstance(obj, Tensor) and result.data_ptr() == obj.data_ptr()
    if copy and (shares or not isinstance(obj, Tensor)):
        result = result.clone()
    if isinstance(obj, Tensor) and copy is False and not shares:
        raise ValueError("can't alias tensor with dtype or device changed: pass copy=None")
    if requires_grad and not result.requires_grad:
        result = (result.detach() if result is obj else result).requires_grad_()
    elif not requires_grad and result.requires_grad:
        result = result.detach()
    return result


# -- methods of Tensor that PyTorch offers as functions, too -----------------------------------


def real(input: Any) -> Any:
    """``input`` itself: its numbers are real."""
    return _checked(input, "real").real


def imag(input: Any) -> Any:
    """Refused: the imaginary parts of real numbers are no part of them."""
    return _checked(input, "imag").imag


def conj(input: Any) -> Any:
    """``input`` itself: its numbers are real."""
    return _checked(input, "conj")


def resolve_conj(input: Any) -> Any:
    """``input`` itself: its numbers are real."""
    return _checked(input, "resolve_conj")


def resolve_neg(input: Any) -> Any:
    """``input`` itself: it is never kept negated."""
    return _checked(input, "resolve_neg")


def detach_(input: Any) -> Any:
    """Cuts ``input`` off from its history, in place."""
    return _checked(input, "detach_").detach_()


# -- questions --------------------------------------------------------------------------------


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj: Any) -> bool:
    """Whether ``obj`` is the memory behind a tensor."""
    return isinstance(obj, UntypedStorage | TypedStorage)


def _checked(input: Any, function: str) -> Any:
    if not isinstance(input, Tensor):
        raise TypeError(
            f"{function}(): argument 'input' (position 1) must be Tensor, "
            f"not {type(input).__name__}"
        )
    return input


def is_floating_point(input: Any) -> bool:
    """Whether the numbers of ``input`` are of a floating-point type."""
    answer: bool = _checked(input, "is_floating_point").is_floating_point()
    return answer


def is_signed(input: Any) -> bool:
    """Whether the numbers of ``input`` can be negative."""
    answer: bool = _checked(input, "is_signed").is_signed()
    return answer


def is_conj(input: Any) -> bool:
    """Whether ``input`` is kept as the conjugate of its memory: never."""
    answer: bool = _checked(input, "is_conj").is_conj()
    return answer


def is_neg(input: Any) -> bool:
    """Whether ``input`` is kept as the negative of its memory: never."""
    answer: bool = _checked(input, "is_neg").is_neg()
    return answer


def is_same_size(input: Any, other: Any) -> bool:
    """Whether both tensors have the same shape."""
    answer: bool = _checked(input, "is_same_size").is_same_size(other)
    return answer


def get_device(input: Any) -> int:
    """The number of the device of ``input``; -1 for the CPU."""
    number: int = _checked(input, "get_device").get_device()
    return number


def is_complex(input: Any) -> bool:
    """Whether the numbers of ``input`` are complex."""
    answer: bool = _checked(input, "is_complex").is_complex()
    return answer


def is_inference(input: Any) -> bool:
    """Whether ``input`` was made in inference mode."""
    answer: bool = _checked(input, "is_inference").is_inference()
    return answer


def numel(input: Any) -> int:
    """The number of elements of ``input``."""
    count: int = _checked(input, "numel").numel()
    return count


def typename(obj: Any) -> str:
    """The name of a tensor's type, such as ``torch.FloatTensor``; of others that of their class."""
    if isinstance(obj, Tensor):
        from weft._legacy_types import type_name

        return type_name(obj.dtype)
    kind = obj if isinstance(obj, type) else type(obj)
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"

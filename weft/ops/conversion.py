"""Dtypes of tensors: conversion by name, and what can be asked about them."""

from __future__ import annotations

from typing import Any

from weft import _core
from weft.ops._composed import composed

Tensor = _core.Tensor

_TYPE_NAMES = {
    _core.float64: "torch.DoubleTensor",
    _core.float32: "torch.FloatTensor",
    _core.float16: "torch.HalfTensor",
    _core.bfloat16: "torch.BFloat16Tensor",
    _core.int64: "torch.LongTensor",
    _core.int32: "torch.IntTensor",
    _core.int16: "torch.ShortTensor",
    _core.int8: "torch.CharTensor",
    _core.uint8: "torch.ByteTensor",
    _core.bool: "torch.BoolTensor",
}
_NAMED_TYPES = {
    prefix + name.removeprefix("torch"): dtype
    for dtype, name in _TYPE_NAMES.items()
    for prefix in ("torch", "weft")
}


@composed(name="type", kinds="method")
def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The tensor as `dtype`, which may be a name such as ``"torch.FloatTensor"``; without it, the
    name of the tensor's own type.
    """
    if dtype is None:
        return _TYPE_NAMES[self.dtype]
    if isinstance(dtype, _core.dtype):
        return self.to(dtype, non_blocking)
    wanted = _NAMED_TYPES.get(dtype) if isinstance(dtype, str) else None
    if wanted is None:
        raise ValueError(f"invalid type: {dtype!r}")
    return self.to(wanted, non_blocking)


@composed(kinds="function method")
def is_nonzero(input: Tensor) -> bool:
    """Whether the one element of the tensor differs from zero."""
    if input.numel() != 1:
        raise RuntimeError(
            f"Boolean value of Tensor with {input.numel()} values is ambiguous; "
            "is_nonzero takes one element"
        )
    return bool(input)


@composed(kinds="method")
def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Whether both tensors have the same shape."""
    return self.shape == other.shape


@composed(kinds="function")
def result_type(tensor1: Any, tensor2: Any) -> Any:
    """The dtype that an operation on these two tensors or numbers computes in."""
    return _core.result_type(tensor1, tensor2)

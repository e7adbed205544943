"""PyTorch values to values of another module with PyTorch's names, and results to numpy.

The way leads through numpy, so that nothing of either library is trusted to convert the other's
tensors. Converting *to torch* gives an independent copy: both sides of a comparison start from
fresh memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch


class Unsupported(Exception):
    """A sample that weft does not claim to take (complex numbers, sparse layouts, ...)."""


# numpy has no bfloat16: its bits travel as int16.
CARRIERS = {torch.bfloat16: torch.int16}
DTYPES = (
  torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
  torch.float16, torch.bfloat16, torch.float32, torch.float64,
)  # fmt: skip


def dtype_name(value: Any) -> str:
    """`torch.float32` and `weft.float32` are both "float32"."""
    return str(value).rpartition(".")[2]


class Bridge:
    """Converts values for one call; a tensor that appears twice stays one tensor."""

    def __init__(self, module: Any, *, requires_grad: bool = True) -> None:
        self.module = module
        self.requires_grad = requires_grad
        self.leaves: list[Any] = []
        self._tensors: dict[int, tuple[torch.Tensor, Any]] = {}

    def __call__(self, value: Any) -> Any:
        module = self.module
        match value:
            case torch.Tensor():
                return self._tensor(value)
            case torch.Size():
                return module.Size(tuple(value))
            case torch.dtype():
                return getattr(module, dtype_name(value))
            case torch.device():
                return module.device(str(value))
            case torch.layout() | torch.memory_format():
                return getattr(module, dtype_name(value))
            case torch.Generator():
                return module.Generator().manual_seed(value.initial_seed())
            case slice():
                return slice(self(value.start), self(value.stop), self(value.step))
            case dict():
                return {key: self(item) for key, item in value.items()}
            case list():
                return [self(item) for item in value]
            case tuple():
                return tuple(self(item) for item in value)
            case complex() | np.complexfloating():
                raise Unsupported("complex number")
            case _:
                return value

    def _tensor(self, source: torch.Tensor) -> Any:
        known = self._tensors.get(id(source))
        if known is None:
            converted = tensor_to(self.module, source)
            if self.requires_grad and source.requires_grad:
                converted.requires_grad_()
                self.leaves.append(converted)
            # The source is kept: its id must not be reused while this bridge lives.
            known = self._tensors[id(source)] = (source, converted)
        return known[1]


def tensor_to(module: Any, source: torch.Tensor) -> Any:
    """A copy of `source` in `module`, with its strides and its holes."""
    if source.layout is not torch.strided:
        raise Unsupported(f"layout {source.layout}")
    if source.dtype not in DTYPES:
        raise Unsupported(f"dtype {source.dtype}")
    if source.dim() > 64:
        raise Unsupported("numpy ends at rank 64")
    result = module.from_numpy(array_of(source.detach().resolve_neg()))
    if source.dtype in CARRIERS:
        result = result.view(getattr(module, dtype_name(source.dtype)))
    return result


def array_of(source: torch.Tensor) -> np.ndarray:
    carrier = CARRIERS.get(source.dtype, source.dtype)
    if source.numel() == 0 or source.is_contiguous():
        return source.contiguous().view(carrier).numpy().copy()
    # Copy the span of memory the tensor lies in, then lay the same strides over it.
    span = 1 + sum((n - 1) * step for n, step in zip(source.shape, source.stride(), strict=True))
    memory = source.as_strided((span,), (1,)).view(carrier).numpy().copy()
    strides = tuple(step * memory.itemsize for step in source.stride())
    return np.lib.stride_tricks.as_strided(memory, tuple(source.shape), strides)


def is_tensor(value: Any, module: Any) -> bool:
    return isinstance(value, module.Tensor)


def to_numpy(value: Any, module: Any) -> np.ndarray:
    """Values of a tensor of `module`; bfloat16 as float32, which holds it exactly."""
    value = value.detach()
    if dtype_name(value.dtype) == "bfloat16":
        value = value.to(module.float32)
    # PyTorch's symbolic zeros have no memory of their own until they are forced.
    return np.asarray(value.numpy(force=True) if module is torch else value.numpy())


def tensors_in(value: Any, module: Any) -> Iterator[Any]:
    """All tensors in nested containers, in order."""
    if is_tensor(value, module):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item, module)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item, module)


def memory_range(value: Any) -> tuple[int, int] | None:
    """First and one-past-last byte of a tensor's elements; None where there are none."""
    if value.numel() == 0:
        return None
    low = high = 0
    for length, step in zip(value.shape, value.stride(), strict=True):
        if step >= 0:
            high += (length - 1) * step
        else:
            low += (length - 1) * step
    itemsize = value.element_size()
    start = value.data_ptr()
    return start + low * itemsize, start + (high + 1) * itemsize


def overlaps(first: Any, second: Any) -> bool:
    """Whether two tensors' memory meets (by their outer bounds)."""
    one, two = memory_range(first), memory_range(second)
    return one is not None and two is not None and one[0] < two[1] and two[0] < one[1]

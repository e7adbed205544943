"""Pooling with PyTorch's options: indices where they are asked for, unpooling, p-norms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft import _core
from weft._core import Tensor
from weft.ops._composed import composed

Sizes = int | Sequence[int]

_max_pool = {n: _core.ops[f"max_pool{n}d"] for n in (1, 2, 3)}
_max_pool_with_indices = {n: _core.ops[f"max_pool{n}d_with_indices"] for n in (1, 2, 3)}
_avg_pool = {n: _core.ops[f"avg_pool{n}d"] for n in (1, 2, 3)}
_adaptive_avg_pool = {n: _core.ops[f"adaptive_avg_pool{n}d"] for n in (2, 3)}
_adaptive_max_pool = {n: _core.ops[f"adaptive_max_pool{n}d_with_indices"] for n in (1, 2, 3)}
_put_at_indices = _core.ops["put_at_indices"]


@composed("max_pool1d", kinds="function", namespace="nn.functional")
def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of every window along the last dimension.

    With ``return_indices`` also where each one lies.

    >>> weft.nn.functional.max_pool1d(weft.tensor([[1.0, 3.0, 2.0, 4.0]]), 2)
    tensor([[3., 4.]])
    """
    if return_indices:
        return _max_pool_with_indices[1](input, kernel_size, stride, padding, dilation, ceil_mode)
    return _max_pool[1](input, kernel_size, stride, padding, dilation, ceil_mode)


@composed("max_pool2d", kinds="function", namespace="nn.functional")
def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of every window of an image.

    With ``return_indices`` also where each one lies in its channel's plane.
    """
    if return_indices:
        return _max_pool_with_indices[2](input, kernel_size, stride, padding, dilation, ceil_mode)
    return _max_pool[2](input, kernel_size, stride, padding, dilation, ceil_mode)


@composed("max_pool3d", kinds="function", namespace="nn.functional")
def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of every window of a volume; see :func:`max_pool2d`."""
    if return_indices:
        return _max_pool_with_indices[3](input, kernel_size, stride, padding, dilation, ceil_mode)
    return _max_pool[3](input, kernel_size, stride, padding, dilation, ceil_mode)


# -- adaptive -----------------------------------------------------------------------------------


def _output_sizes(input: Tensor, output_size: Any, spatial: int) -> Any:
    """The sizes asked for; None keeps the input's."""
    if isinstance(output_size, int):
        return output_size
    if len(output_size) != spatial:
        raise RuntimeError(
            f"adaptive pooling: output_size must have {spatial} elements, got {output_size}"
        )
    if input.ndim <= spatial:
        raise ValueError(
            f"Input dimension should be at least {spatial + 1}, got an input of "
            f"{input.ndim} dimensions for output_size {output_size}"
        )
    if None not in output_size:
        return output_size
    kept = input.shape[-spatial:]
    return [own if size is None else size for size, own in zip(output_size, kept, strict=True)]


_ONE_PIXEL: tuple[Any, ...] = (1, (1, 1), [1, 1])


@composed("adaptive_avg_pool2d", kinds="function", namespace="nn.functional")
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Averages an image over as many windows as the output is to have.

    ``None`` as one of the two sizes keeps the input's. Size 1 averages over the whole image.
    """
    whole = output_size in _ONE_PIXEL and input.ndim in (3, 4) and input.is_floating_point()
    if whole and 0 not in input.shape:
        return input.mean((-2, -1), keepdim=True)
    return _adaptive_avg_pool[2](input, _output_sizes(input, output_size, 2))


@composed("adaptive_avg_pool3d", kinds="function", namespace="nn.functional")
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Averages a volume over as many windows as the output is to have."""
    return _adaptive_avg_pool[3](input, _output_sizes(input, output_size, 3))


def _adaptive_max(
    spatial: int, input: Tensor, output_size: Any, return_indices: bool
) -> Tensor | tuple[Tensor, Tensor]:
    sizes = _output_sizes(input, output_size, spatial)
    values, indices = _adaptive_max_pool[spatial](input, sizes)
    return (values, indices) if return_indices else values


@composed("adaptive_max_pool1d", kinds="function", namespace="nn.functional")
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of as many windows as the output is to have."""
    return _adaptive_max(1, input, output_size, return_indices)


@composed("adaptive_max_pool2d", kinds="function", namespace="nn.functional")
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of as many windows as the output is to have."""
    return _adaptive_max(2, input, output_size, return_indices)


@composed("adaptive_max_pool3d", kinds="function", namespace="nn.functional")
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of as many windows as the output is to have."""
    return _adaptive_max(3, input, output_size, return_indices)


@composed("adaptive_max_pool1d", kinds="function")
def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """The largest elements of as many windows as the output is to have, and where they lie."""
    values, indices = _adaptive_max_pool[1](input, output_size)
    return values, indices


# -- unpooling ----------------------------------------------------------------------------------


def _list_of(value: Sizes, spatial: int) -> list[int]:
    return [value] * spatial if isinstance(value, int) else list(value)


def _unpooled_sizes(
    input: Tensor, kernel: list[int], stride: list[int], padding: list[int], output_size: Any
) -> list[int]:
    spatial = len(kernel)
    default = [
        (input.shape[d - spatial] - 1) * stride[d] + kernel[d] - 2 * padding[d]
        for d in range(spatial)
    ]
    if output_size is None:
        return default
    output_size = tuple(output_size)
    if len(output_size) == spatial + 2:
        output_size = output_size[2:]
    if len(output_size) != spatial:
        raise ValueError(
            f"output_size should be a sequence containing {spatial} or {spatial + 2} elements, "
            f"but it has a length of '{len(output_size)}'"
        )
    for d in range(spatial):
        low, high = default[d] - stride[d], default[d] + stride[d]
        if not low < output_size[d] < high:
            raise ValueError(
                f'invalid output_size "{output_size}" (dim {d} must be between {low} and {high})'
            )
    return list(output_size)


def _unpool(
    spatial: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    output_size: Any,
) -> Tensor:
    kernel = _list_of(kernel_size, spatial)
    steps = _list_of(stride, spatial) if stride is not None else kernel
    sizes = _unpooled_sizes(input, kernel, steps, _list_of(padding, spatial), output_size)
    return _put_at_indices(input, indices, sizes)


@composed("max_unpool1d", kinds="function", namespace="nn.functional")
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Any = None,
) -> Tensor:
    """Puts what :func:`max_pool1d` kept back to where it was; everything else is 0."""
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


@composed("max_unpool2d", kinds="function", namespace="nn.functional")
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Any = None,
) -> Tensor:
    """Puts what :func:`max_pool2d` kept back to where it was; everything else is 0."""
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


@composed("max_unpool3d", kinds="function", namespace="nn.functional")
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Any = None,
) -> Tensor:
    """Puts what :func:`max_pool3d` kept back to where it was; everything else is 0."""
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)


# -- p-norms of windows -------------------------------------------------------------------------


def _power_average(
    spatial: int, input: Tensor, norm_type: float, kernel: list[int], stride: Any, ceil_mode: bool
) -> Tensor:
    elements = 1
    for size in kernel:
        elements *= size
    mean = _avg_pool[spatial](input.pow(norm_type), kernel, stride, 0, ceil_mode)
    # The sign and relu keep the root of a negative number from becoming NaN, as PyTorch does.
    return (mean.sign() * mean.abs().relu()).mul(elements).pow(1.0 / norm_type)


@composed("lp_pool1d", kinds="function", namespace="nn.functional")
def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The ``norm_type``-norm of every window along the last dimension."""
    return _power_average(1, input, norm_type, _list_of(kernel_size, 1), stride, ceil_mode)


@composed("lp_pool2d", kinds="function", namespace="nn.functional")
def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The ``norm_type``-norm of every window of an image."""
    return _power_average(2, input, norm_type, _list_of(kernel_size, 2), stride, ceil_mode)


@composed("lp_pool3d", kinds="function", namespace="nn.functional")
def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The ``norm_type``-norm of every window of a volume."""
    return _power_average(3, input, norm_type, _list_of(kernel_size, 3), stride, ceil_mode)

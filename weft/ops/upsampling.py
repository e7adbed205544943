"""Images of another size, channels that become pixels, windows that become columns."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from weft import _core
from weft._core import Tensor
from weft.ops._composed import alias, composed

_resample = _core.ops["resample"]
_im2col = _core.ops["im2col"]
_col2im = _core.ops["col2im"]
_adaptive_average = {n: _core.ops[f"adaptive_avg_pool{n}d"] for n in (1, 2, 3)}

_MODES = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"
# The number of spatial dimensions that a mode is for, and what it does along each of them.
_INTERPOLATING = {
    "linear": (1, "linear"),
    "bilinear": (2, "linear"),
    "trilinear": (3, "linear"),
    "bicubic": (2, "cubic"),
}


def _asked_sizes(
    input: Tensor, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[list[int], list[float]]:
    """Sizes of the output, and the factors that place its elements (0: the ratio of the sizes)."""
    spatial = input.ndim - 2
    inner = list(input.shape[2:])
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        if not isinstance(size, Sequence):
            return [size] * spatial, [0.0] * spatial
        if len(size) != spatial:
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input "
                f"with spatial dimensions of {inner} and output size of {size}. Please provide "
                "input tensor in (N, C, d1, d2, ...,dK) format and output size in "
                "(o1, o2, ...,oK) format."
            )
        return list(size), [0.0] * spatial
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if not isinstance(scale_factor, Sequence):
        factors = [float(scale_factor)] * spatial
    elif len(scale_factor) == spatial:
        factors = [float(factor) for factor in scale_factor]
    else:
        raise ValueError(
            "Input and scale_factor must have the same number of spatial dimensions, but got input "
            f"with spatial dimensions of {inner} and scale_factor of shape {scale_factor}. Please "
            "provide input tensor in (N, C, d1, d2, ...,dK) format and scale_factor in "
            "(s1, s2, ...,sK) format."
        )
    sizes = [math.floor(n * factor) for n, factor in zip(inner, factors, strict=True)]
    return sizes, [0.0] * spatial if recompute else factors


def _check_mode(input: Tensor, mode: str) -> None:
    known = mode in ("nearest", "nearest-exact", "area") or mode in _INTERPOLATING
    if input.ndim not in (3, 4, 5) or not known:
        raise NotImplementedError(
            "Input Error: Only 3D, 4D and 5D input Tensors supported"
            f" (got {input.ndim}D) for the modes: {_MODES} (got {mode})"
        )
    if mode in _INTERPOLATING and input.ndim != _INTERPOLATING[mode][0] + 2:
        wanted = _INTERPOLATING[mode][0] + 2
        raise NotImplementedError(f"Got {input.ndim}D input, but {mode} mode needs {wanted}D input")


def _check_input(input: Tensor, sizes: list[int]) -> None:
    if min(*sizes, *input.shape[2:]) <= 0:
        names = "DHW"[3 - len(sizes) :]
        of_input = ", ".join(f"{n}: {s}" for n, s in zip(names, input.shape[2:], strict=True))
        of_output = ", ".join(f"{n}: {s}" for n, s in zip(names, sizes, strict=True))
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({of_input}) "
            f"output ({of_output})"
        )
    if input.shape[1] == 0:
        raise RuntimeError(
            "Non-empty data tensor expected but got a tensor with sizes "
            f"{list(input.shape)}: interpolation needs at least one channel"
        )


@composed("interpolate", kinds="function", namespace="nn.functional")
def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Changes the size of a batch of signals, images or volumes.

    The new size is given by ``size`` or by ``scale_factor``. Modes are ``"nearest"``,
    ``"nearest-exact"``, ``"linear"`` (3-D input), ``"bilinear"`` and ``"bicubic"`` (4-D),
    ``"trilinear"`` (5-D) and ``"area"``. With ``align_corners`` the centres of the outermost pixels
    stay where they are, else the outer edges do.

    >>> weft.nn.functional.interpolate(weft.arange(2.0).reshape(1, 1, 2), scale_factor=2)
    tensor([[[0., 0., 1., 1.]]])
    """
    if align_corners is not None and mode in ("nearest", "area", "nearest-exact"):
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear "
            "| bicubic | trilinear"
        )
    sizes, factors = _asked_sizes(input, size, scale_factor, recompute_scale_factor)
    if antialias:
        if mode not in ("bilinear", "bicubic", "lanczos") or input.ndim != 4:
            raise ValueError(
                "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and "
                "requires a 4-D tensor as input"
            )
        raise NotImplementedError(
            "interpolate: antialias=True is not available in weft; average first (avg_pool2d)"
        )
    _check_mode(input, mode)
    if mode == "area":
        return _adaptive_average[input.ndim - 2](input, sizes)
    _check_input(input, sizes)
    along = _INTERPOLATING[mode][1] if mode in _INTERPOLATING else mode
    narrow = input.dtype in (_core.float16, _core.bfloat16)
    result = input.float() if narrow else input
    # The last dimension first: the order in which PyTorch's sums are nested.
    for i in reversed(range(len(sizes))):
        result = _resample(result, i + 2, sizes[i], along, bool(align_corners), factors[i])
    return result.to(input.dtype) if narrow else result


@composed("upsample", kinds="function", namespace="nn.functional")
def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """The older name of :func:`interpolate`."""
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


@composed("upsample_nearest", kinds="function", namespace="nn.functional")
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """The older name of :func:`interpolate` with mode ``"nearest"``."""
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="nearest")


@composed("upsample_bilinear", kinds="function", namespace="nn.functional")
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """The older name of :func:`interpolate` with mode ``"bilinear"`` and aligned corners."""
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# -- channels and pixels ------------------------------------------------------------------------


def _check_image(name: str, input: Tensor, factor: int, what: str) -> None:
    if input.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with "
            f"{input.ndim} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {what}, but got {factor}")


@composed(kinds="function")
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Turns r * r channels into an image r times as high and wide.

    >>> weft.pixel_shuffle(weft.zeros(1, 8, 4, 4), 2).shape
    torch.Size([1, 2, 8, 8])
    """
    _check_image("pixel_shuffle", input, upscale_factor, "upscale_factor")
    *batch, channels, height, width = input.shape
    r = upscale_factor
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}"
        )
    if r == 1:
        return input.clone()
    n = len(batch)
    split = input.reshape(*batch, channels // (r * r), r, r, height, width)
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    return split.permute(order).reshape(*batch, channels // (r * r), height * r, width * r)


@composed(kinds="function")
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Undoes :func:`pixel_shuffle`: squares of r * r pixels become channels."""
    _check_image("pixel_unshuffle", input, downscale_factor, "downscale_factor")
    *batch, channels, height, width = input.shape
    r = downscale_factor
    for name, dim, size in (("height", -2, height), ("width", -1, width)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"input.size({dim})={size} is not divisible by {r}"
            )
    if r == 1:
        return input.clone()
    n = len(batch)
    split = input.reshape(*batch, channels, height // r, r, width // r, r)
    order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    return split.permute(order).reshape(*batch, channels * r * r, height // r, width // r)


@composed(kinds="function")
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Deals the channels of ``groups`` groups out like cards, one of each group in turn."""
    if input.ndim <= 2:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes "
            f"{list(input.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    batch, channels, *inner = input.shape
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and "
            f"{groups} groups."
        )
    split = input.reshape(batch, groups, channels // groups, *inner)
    return split.transpose(1, 2).reshape(input.shape)


for _name in ("pixel_shuffle", "pixel_unshuffle", "channel_shuffle"):
    alias(_name, _name, namespace="nn.functional")


# -- windows and columns ------------------------------------------------------------------------


def _pair(value: int | Sequence[int]) -> Sequence[int]:
    return (value, value) if isinstance(value, int) else value


@composed("unfold", kinds="function", namespace="nn.functional")
def unfold(
    input: Tensor,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """The windows of a batch of images as columns: (N, C, H, W) becomes (N, C * window, windows).

    A convolution is a product with them:

    >>> x, weight = weft.randn(1, 3, 8, 8), weft.randn(4, 3, 3, 3)
    >>> columns = weft.nn.functional.unfold(x, 3)
    >>> (weight.flatten(1) @ columns).shape
    torch.Size([1, 4, 36])
    """
    return _im2col(input, _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride))


@composed("fold", kinds="function", namespace="nn.functional")
def fold(
    input: Tensor,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """Adds columns, as :func:`unfold` gives them, up to a batch of images."""
    return _col2im(
        input,
        _pair(output_size),
        _pair(kernel_size),
        _pair(dilation),
        _pair(padding),
        _pair(stride),
    )

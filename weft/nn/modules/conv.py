"""Convolutions and transposed convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from weft import _core
from weft._core import Tensor
from weft.nn import functional as F
from weft.nn import init
from weft.nn.modules.lazy import LazyModuleMixin
from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter, UninitializedParameter

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]

Sizes = int | Sequence[int]
PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def _tuple_of(value: Sizes, spatial: int) -> tuple[int, ...]:
    return (value,) * spatial if isinstance(value, int) else tuple(value)


class _ConvNd(Module):
    """What all convolutions have: their options and parameters."""

    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int
    padding_mode: str
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_options(in_channels, out_channels, stride, padding, groups, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = _padding_of_every_side(
            kernel_size, padding, dilation
        )
        first, second = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        shape = (first, second // groups, *kernel_size)
        self.weight = Parameter(_core.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(_core.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws weight and bias anew, evenly within 1 / sqrt(what one output sees)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        zeros = (0,) * len(self.kernel_size)
        if self.padding != zeros:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * len(self.dilation):
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * len(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        if not hasattr(self, "padding_mode"):
            self.padding_mode = "zeros"


def _check_options(
    in_channels: int,
    out_channels: int,
    stride: tuple[int, ...],
    padding: str | tuple[int, ...],
    groups: int,
    padding_mode: str,
) -> None:
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups != 0:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(
                f"Invalid padding string {padding!r}, should be one of {{'valid', 'same'}}"
            )
        if padding == "same" and any(step != 1 for step in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(
            f"padding_mode must be one of {set(_PADDING_MODES)}, "
            f"but got padding_mode='{padding_mode}'"
        )


def _padding_of_every_side(
    kernel_size: tuple[int, ...], padding: str | tuple[int, ...], dilation: tuple[int, ...]
) -> list[int]:
    """Before and after each dimension, the last dimension first: what ``F.pad`` takes."""
    sides: list[int] = []
    for d in reversed(range(len(kernel_size))):
        if padding == "same":
            total = dilation[d] * (kernel_size[d] - 1)
            sides += [total // 2, total - total // 2]
        elif isinstance(padding, str):
            sides += [0, 0]
        else:
            sides += [padding[d], padding[d]]
    return sides


class _Conv(_ConvNd):
    """Of 1, 2 or 3 dimensions: a subclass names the function and how many."""

    _spatial: int
    _function: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: str | Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        n = self._spatial
        super().__init__(
            in_channels,
            out_channels,
            _tuple_of(kernel_size, n),
            _tuple_of(stride, n),
            padding if isinstance(padding, str) else _tuple_of(padding, n),
            _tuple_of(dilation, n),
            False,
            (0,) * n,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: str | Sizes = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        result: Tensor = self._function(
            input, weight, bias, self.stride, padding, self.dilation, self.groups
        )
        return result

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Slides ``out_channels`` filters over signals: (N, C, L) to (N, out_channels, L').

    ``padding`` widens the signal at both ends, by a number or to keep its length (``"same"``);
    ``padding_mode`` says with what. ``groups`` parts of the channels see only each other.

    >>> weft.nn.Conv1d(16, 33, 3, stride=2)(weft.randn(20, 16, 50)).shape
    torch.Size([20, 33, 24])
    """

    _spatial = 1
    _function = staticmethod(_core.functional["conv1d"])


class Conv2d(_Conv):
    """Slides ``out_channels`` filters over images: (N, C, H, W) to (N, out_channels, H', W').

    ``padding`` widens the image on every side, by a number or to keep its size (``"same"``);
    ``padding_mode`` says with what. ``groups`` parts of the channels see only each other.

    >>> weft.nn.Conv2d(3, 16, 3, padding=1)(weft.randn(8, 3, 32, 32)).shape
    torch.Size([8, 16, 32, 32])
    """

    _spatial = 2
    _function = staticmethod(_core.functional["conv2d"])


class Conv3d(_Conv):
    """Slides ``out_channels`` filters over volumes: (N, C, D, H, W)."""

    _spatial = 3
    _function = staticmethod(_core.functional["conv3d"])


class _ConvTransposeNd(_ConvNd):
    """Of 1, 2 or 3 dimensions: a subclass names the function and how many."""

    _spatial: int
    _function: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: PaddingMode = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}, '
                f"got {padding_mode!r}"
            )
        n = self._spatial
        super().__init__(
            in_channels,
            out_channels,
            _tuple_of(kernel_size, n),
            _tuple_of(stride, n),
            _tuple_of(padding, n),
            _tuple_of(dilation, n),
            True,
            _tuple_of(output_padding, n),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        """What must be added at the end so that the result has this size."""
        n = self._spatial
        padding = self.padding
        assert not isinstance(padding, str)
        has_batch = input.ndim == n + 2
        wanted = list(output_size)
        if len(wanted) == n + 1 + has_batch:
            wanted = wanted[-n:]
        if len(wanted) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.ndim}D input, output_size must have {n} or "
                f"{n + 1 + has_batch} elements (got {len(output_size)})"
            )
        least = [
            (input.shape[d - n] - 1) * self.stride[d]
            - 2 * padding[d]
            + self.dilation[d] * (self.kernel_size[d] - 1)
            + 1
            for d in range(n)
        ]
        most = [size + self.stride[d] - 1 for d, size in enumerate(least)]
        if any(
            not low <= size <= high for low, size, high in zip(least, wanted, most, strict=True)
        ):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range from {least} to "
                f"{most} (for an input of {list(input.shape[2:])})"
            )
        return tuple(size - low for size, low in zip(wanted, least, strict=True))

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        more = (
            self.output_padding if output_size is None else self._output_padding(input, output_size)
        )
        result: Tensor = self._function(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            more,
            self.groups,
            self.dilation,
        )
        return result


class ConvTranspose1d(_ConvTransposeNd):
    """The way back of :class:`Conv1d` as far as shapes go: every input adds a filter to the output.

    With a stride several sizes of the output are possible; ``output_padding``, or ``output_size``
    when calling, chooses one.
    """

    _spatial = 1
    _function = staticmethod(_core.functional["conv_transpose1d"])


class ConvTranspose2d(_ConvTransposeNd):
    """The way back of :class:`Conv2d` as far as shapes go: every pixel adds a filter to the output.

    With a stride several sizes of the output are possible; ``output_padding``, or ``output_size``
    when calling, chooses one.

    >>> weft.nn.ConvTranspose2d(16, 8, 3, stride=2, padding=1)(
    ...     weft.randn(1, 16, 6, 6), output_size=(12, 12)
    ... ).shape
    torch.Size([1, 8, 12, 12])
    """

    _spatial = 2
    _function = staticmethod(_core.functional["conv_transpose2d"])


class ConvTranspose3d(_ConvTransposeNd):
    """The way back of :class:`Conv3d` as far as shapes go; see :class:`ConvTranspose2d`."""

    _spatial = 3
    _function = staticmethod(_core.functional["conv_transpose3d"])


# -- input channels found out from the first input ------------------------------------------------


class _LazyConv(LazyModuleMixin):
    """What turns a convolution into one that takes ``in_channels`` from its first input."""

    def _await_parameters(
        self: Any, out_channels: int, bias: bool, device: Any, dtype: Any
    ) -> None:
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self: Any) -> None:
        """Draws weight and bias anew, as soon as they have a shape."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Takes ``in_channels`` from the input's dimension of channels."""
        if not self.has_uninitialized_params():
            return
        n = self._spatial
        if input.ndim not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {list(input.shape)}"
            )
        self.in_channels = input.shape[-n - 1]
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        self.weight.materialize((first, second // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyForward(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: str | Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )
        self._await_parameters(out_channels, bias, device, dtype)


class _LazyTransposed(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: PaddingMode = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation,
            padding_mode, device, dtype,
        )  # fmt: skip
        self._await_parameters(out_channels, bias, device, dtype)


class LazyConv1d(_LazyForward, Conv1d):
    """A :class:`Conv1d` that takes ``in_channels`` from its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyForward, Conv2d):
    """A :class:`Conv2d` that takes ``in_channels`` from its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyForward, Conv3d):
    """A :class:`Conv3d` that takes ``in_channels`` from its first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyTransposed, ConvTranspose1d):
    """A :class:`ConvTranspose1d` that takes ``in_channels`` from its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, ConvTranspose2d):
    """A :class:`ConvTranspose2d` that takes ``in_channels`` from its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, ConvTranspose3d):
    """A :class:`ConvTranspose3d` that takes ``in_channels`` from its first input."""

    cls_to_become = ConvTranspose3d

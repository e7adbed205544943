"""Dropout of whole channels, and dropout that keeps mean and variance. The usual one, and what
draws the noise, is core/ops/dropout.cpp."""

from __future__ import annotations

import math
import warnings

from weft import _core
from weft._core import Tensor
from weft.ops._composed import composed

_feature_dropout = _core.ops["feature_dropout"]
_MOST_NEGATIVE = -1.7580993408473766  # where SELU levels out: -scale * alpha


def _check_probability(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


@composed(kinds="function", namespace="nn.functional")
def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zeroes whole channels of sequences (N, C, L) or (C, L)."""
    _check_probability(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, "
            "a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return _of_channels(input, p, training, inplace, batched=input.dim() == 3)


@composed(kinds="function", namespace="nn.functional")
def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zeroes whole channels of images (N, C, H, W)."""
    _check_probability(p)
    if input.dim() not in (3, 4):
        _warn_of_dims("dropout2d", input.dim(), 2)
    if input.dim() == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel "
            "dim. This behavior will change in a future release to interpret the input as one "
            "without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise "
            "dropout behavior, please switch to using dropout1d instead.",
            stacklevel=2,
        )
    return _feature_dropout(input, p, training, inplace)


@composed(kinds="function", namespace="nn.functional")
def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zeroes whole channels of volumes (N, C, D, H, W) or (C, D, H, W)."""
    _check_probability(p)
    if input.dim() not in (4, 5):
        _warn_of_dims("dropout3d", input.dim(), 3)
    return _of_channels(input, p, training, inplace, batched=input.dim() == 5)


def _warn_of_dims(name: str, given: int, spatial: int) -> None:
    warnings.warn(
        f"{name}: Received a {given}-D input to {name}, which is deprecated and will result in an "
        "error in a future release. To retain the behavior and silence this warning, please use "
        f"dropout instead. Note that {name} exists to provide channel-wise dropout on inputs with "
        f"{spatial} spatial dimensions, a channel dimension, and an optional batch dimension "
        f"(i.e. {spatial + 1}D or {spatial + 2}D inputs).",
        stacklevel=3,
    )


def _of_channels(input: Tensor, p: float, training: bool, inplace: bool, batched: bool) -> Tensor:
    if batched:
        return _feature_dropout(input, p, training, inplace)
    result = _feature_dropout(input.unsqueeze(0), p, training, inplace)
    return input if inplace else result.squeeze(0)


@composed(kinds="function", namespace="nn.functional")
def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout for SELU networks: what is dropped becomes SELU's lowest value.

    Everything is then shifted and scaled, so that mean and variance stay what they were.
    """
    return _alpha(input, p, training, inplace, list(input.shape))


@composed(kinds="function", namespace="nn.functional")
def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """:func:`alpha_dropout` of whole channels."""
    if training and p > 0 and input.dim() < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return _alpha(input, p, training, inplace, [*input.shape[:2], *[1] * (input.dim() - 2)])


def _alpha(input: Tensor, p: float, training: bool, inplace: bool, size: list[int]) -> Tensor:
    _check_probability(p)
    if not training or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        return input.zero_() if inplace else input * 0
    kept = _core.ops["empty"](size, dtype=input.dtype, device=input.device).bernoulli_(1 - p)
    scale = 1 / math.sqrt((_MOST_NEGATIVE**2 * p + 1) * (1 - p))
    # Dropped: the lowest value; kept: nothing. Then moved so that the mean is zero again.
    shift = (1 - kept) * (scale * _MOST_NEGATIVE) - scale * _MOST_NEGATIVE * p
    kept = kept * scale
    return input.mul_(kept).add_(shift) if inplace else input * kept + shift

"""Loss functions. The core of the most used ones is in ``core/ops/losses.cpp``."""

from __future__ import annotations

import math
import warnings

from weft import _core
from weft._core import Tensor
from weft.ops._composed import composed

_nll_loss = _core.ops["nll_loss"]
_cross_entropy = _core.ops["cross_entropy"]
_mse_loss = _core.ops["mse_loss"]
_binary_cross_entropy = _core.ops["binary_cross_entropy_forward"]
_linear = _core.functional["linear"]
_where = _core.ops["where"]


# -- what they share -------------------------------------------------------------------------


def _legacy_reduction(size_average: bool | None, reduce: bool | None) -> str:
    """What the two flags that came before ``reduction`` mean."""
    reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(
        "size_average and reduce args will be deprecated, please use "
        f"reduction='{reduction}' instead.",
        stacklevel=3,
    )
    return reduction


def _reduced(losses: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return losses.mean()
    if reduction == "sum":
        return losses.sum()
    if reduction == "none":
        return losses
    raise ValueError(f"{reduction} is not a valid value for reduction")


def _weighted(losses: Tensor, weight: Tensor | None, input: Tensor, reduction: str) -> Tensor:
    """Reduced, the mean being that of the weights."""
    if weight is None:
        return _reduced(losses, reduction)
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    losses = losses * weight
    if reduction == "mean":
        return losses.sum() / weight.sum()
    return _reduced(losses, reduction)


def _warn_of_broadcast(input: Tensor, target: Tensor) -> None:
    if input.shape != target.shape:
        _core._note_loss_sizes(input, target)
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=3,
        )


def _check_floating(name: str, input: Tensor, target: Tensor) -> None:
    if not (input.is_floating_point() or target.is_floating_point()):
        raise NotImplementedError(f'"{name}" not implemented for {input.dtype}')


# -- of classes ------------------------------------------------------------------------------


@composed(kinds="function", namespace="nn.functional")
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross-entropy between logits and class indices, or probabilities of all classes."""
    if size_average is not None or reduce is not None:
        reduction = _legacy_reduction(size_average, reduce)
    return _cross_entropy(input, target, weight, reduction, ignore_index, label_smoothing)


@composed(kinds="function", namespace="nn.functional")
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood of class indices, given log-probabilities."""
    if size_average is not None or reduce is not None:
        reduction = _legacy_reduction(size_average, reduce)
    return _nll_loss(input, target, weight, reduction, ignore_index)


# -- of differences --------------------------------------------------------------------------


@composed(kinds="function", namespace="nn.functional")
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The mean squared difference."""
    if size_average is not None or reduce is not None:
        reduction = _legacy_reduction(size_average, reduce)
    if weight is None:
        return _mse_loss(input, target, reduction)
    _warn_of_broadcast(input, target)
    return _weighted((input - target).square(), weight, input, reduction)


@composed(kinds="function", namespace="nn.functional")
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The mean absolute difference."""
    if size_average is not None or reduce is not None:
        reduction = _legacy_reduction(size_average, reduce)
    _warn_of_broadcast(input, target)
    return _weighted((input - target).abs(), weight, input, reduction)


@composed(kinds="function", namespace="nn.functional")
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Half the squared difference over ``beta`` below ``beta``, and above it linear."""
    if size_average is not None or reduce is not None:
        reduction = _legacy_reduction(size_average, reduce)
    _warn_of_broadcast(input, target)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    _check_floating("smooth_l1_loss", input, target)
    distance = (input - target).abs()
    if beta == 0:
        return _reduced(distance, reduction)
    losses = _where(distance < beta, distance.square() * (0.5 / beta), distance - 0.5 * beta)
    return _reduced(losses, reduction)


@composed(kinds="function", namespace="nn.functional")
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Half the squared difference up to ``delta``, and above it linear with slope ``delta``."""
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    _warn_of_broadcast(input, target)
    _check_floating("huber_loss", input, target)
    distance = (input - target).abs()
    losses = _where(distance <= delta, distance.square() * 0.5, (distance - 0.5 * delta) * delta)
    return _weighted(losses, weight, input, reduction)


# -- of probabilities ------------------------------------------------------------------------


@composed(kinds="function", namespace="nn.functional")
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The cross-entropy between probabilities; logarithms count as at least -100."""
    if size_average is not None or reduce is not None:
        reduction = _legacy_reduction(size_average, reduce)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size."
        )
    losses = _binary_cross_entropy(input, target)
    if weight is not None:
        losses = losses * weight.expand(target.shape)
    return _reduced(losses, reduction)


@composed(kinds="function", namespace="nn.functional")
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """``binary_cross_entropy(sigmoid(input), target)`` without leaving the logarithmic scale."""
    if size_average is not None or reduce is not None:
        reduction = _legacy_reduction(size_average, reduce)
    if target.shape != input.shape:
        raise ValueError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})"
        )
    log_probability = _core.functional["logsigmoid"](input)
    if pos_weight is not None:
        log_probability = log_probability * ((pos_weight - 1) * target + 1)
    losses = (1 - target) * input - log_probability
    if weight is not None:
        losses = losses * weight
    return _reduced(losses, reduction)


@composed(kinds="function", namespace="nn.functional")
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """The Kullback-Leibler divergence of ``target`` from the log-probabilities ``input``."""
    if size_average is not None or reduce is not None:
        reduction = _legacy_reduction(size_average, reduce)
    elif reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next major "
            "release.",
            stacklevel=2,
        )
    if not (input.is_floating_point() and target.is_floating_point()):
        raise RuntimeError("kl_div: Integral inputs not supported.")
    if log_target:
        losses = target.exp() * (target - input)
    else:
        losses = target.xlogy(target) - target * input
    if reduction != "batchmean":
        return _reduced(losses, reduction)
    total = losses.sum()
    return total / input.shape[0] if input.dim() > 0 else total


# -- a layer and its loss --------------------------------------------------------------------


@composed(kinds="function", namespace="nn.functional")
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: None = None,
) -> Tensor:
    """The cross-entropy of ``linear(input, linear_weight, linear_bias)``.

    ``linear_weight`` has the shape (classes, ..., features): with dimensions in between there is
    one decision for each element of them.
    """
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}"
        )
    classes, *decisions, features = linear_weight.shape
    if input.shape[-1] != features:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), "
            f"got {input.shape[-1]} and {features}, respectively"
        )
    if linear_bias is not None and list(linear_bias.shape) != [classes, *decisions]:
        raise RuntimeError(
            f"expected linear_bias shape {(classes, *decisions)}, got {tuple(linear_bias.shape)}"
        )
    if decisions and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} "
            f"requires batched input, (N, {features}), got unbatched input with shape "
            f"{tuple(input.shape)}"
        )
    rows = math.prod(decisions, start=classes)
    if linear_bias is not None:
        linear_bias = linear_bias.reshape(rows)
    logits = _linear(input, linear_weight.reshape(rows, features), linear_bias)
    logits = logits.reshape([*input.shape[:-1], classes, *decisions])
    if ignore_index is None:
        ignore_index = -100
    elif target.shape == logits.shape:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    return _cross_entropy(logits, target, weight, reduction, ignore_index, label_smoothing)

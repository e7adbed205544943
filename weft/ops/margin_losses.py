"""Losses of margins and distances: pairs, triplets, and several classes at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weft import _core
from weft._core import Tensor
from weft.ops._composed import composed
from weft.ops.losses import _legacy_reduction, _reduced

_log_sigmoid = _core.functional["logsigmoid"]


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` over the last dimension."""
    difference = x1 - x2 + eps
    return _core.ops["linalg_vector_norm"](difference, p, [-1], keepdim)


# PyTorch offers this one under both names.
composed(kinds="function")(pairwise_distance)
composed(kinds="function", namespace="nn.functional")(pairwise_distance)


def _check_reduction(reduction: str) -> None:
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")


# -- pairs and triplets ----------------------------------------------------------------------


@composed(kinds="function", namespace="nn.functional")
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """How far ``input1`` is from being larger than ``input2`` where ``target`` is 1.

    Where ``target`` is -1, it should be smaller.
    """
    if size_average is not None or reduce is not None:
        reduction = _legacy_reduction(size_average, reduce)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


@composed(kinds="function", namespace="nn.functional")
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cosine where ``target`` is 1, and the cosine above ``margin`` where it is -1."""
    if size_average is not None or reduce is not None:
        reduction = _legacy_reduction(size_average, reduce)
    if target.dim() > 1:
        raise RuntimeError(
            "0D or 1D target tensor expected, multi-target not supported: got a target of "
            f"{target.dim()} dimensions"
        )
    if input1.dim() != target.dim() + 1 or input2.dim() != target.dim() + 1:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found "
            f"inputs with sizes {list(input1.shape)} and {list(input2.shape)}."
        )
    tiny = 1e-12
    product = (input1 * input2).sum(-1)
    square1, square2 = ((x * x).sum(-1) + tiny for x in (input1, input2))
    cosine = product / (square1 * square2).sqrt()
    alike = (1 - cosine).masked_fill(target != 1, 0)
    unlike = (cosine - margin).clamp_min(0).masked_fill(target != -1, 0)
    return _reduced(alike + unlike, reduction)


@composed(kinds="function", namespace="nn.functional")
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The input where ``target`` is 1, and what is missing to ``margin`` where it is -1."""
    if size_average is not None or reduce is not None:
        reduction = _legacy_reduction(size_average, reduce)
    close = (margin - input).clamp_min(0).masked_fill(target == 1, 0)
    return _reduced(close + input.masked_fill(target == -1, 0), reduction)


@composed(kinds="function", namespace="nn.functional")
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """How far the anchor is from being closer to ``positive`` than to ``negative`` by a margin.

    With ``swap`` the negative's distance is that to the nearer of anchor and positive.
    """
    if size_average is not None or reduce is not None:
        reduction = _legacy_reduction(size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    _check_triplet(anchor, positive, negative)

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return pairwise_distance(a, b, p, eps)

    return _triplet_loss(anchor, positive, negative, distance, margin, swap, reduction)


@composed(kinds="function", namespace="nn.functional")
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """:func:`triplet_margin_loss` with any distance."""
    _check_reduction(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    _check_triplet(anchor, positive, negative)
    distance = distance_function or pairwise_distance
    return _triplet_loss(anchor, positive, negative, distance, margin, swap, reduction)


def _check_triplet(anchor: Tensor, positive: Tensor, negative: Tensor) -> None:
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.dim()}D, positive {positive.dim()}D, and "
            f"negative {negative.dim()}D inputs"
        )


def _triplet_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    to_positive = distance(anchor, positive)
    to_negative = distance(anchor, negative)
    if swap:
        to_negative = _core.ops["minimum"](to_negative, distance(positive, negative))
    return _reduced((to_positive - to_negative + margin).clamp_min(0), reduction)


# -- distributions ---------------------------------------------------------------------------


@composed(kinds="function", namespace="nn.functional")
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood of counts, given the (logarithm of the) rate.

    With ``full`` the term that depends on the target alone is added, by Stirling's formula.
    """
    if size_average is not None or reduce is not None:
        reduction = _legacy_reduction(size_average, reduce)
    _check_reduction(reduction)
    rate, log_rate = (input.exp(), input) if log_input else (input, (input + eps).log())
    losses = rate - target * log_rate
    if full:
        stirling = target * target.log() - target + (target * (2 * math.pi)).log() * 0.5
        losses = losses + stirling.masked_fill(target <= 1, 0)
    return _reduced(losses, reduction)


@composed(kinds="function", namespace="nn.functional")
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood of values, given mean and variance (at least ``eps``)."""
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = _core.ops["full_like"](input, var)
    elif bool((var < 0).any()):
        raise ValueError("var has negative entry/entries")
    if var.shape != input.shape:
        differing = [b for a, b in zip(input.shape, var.shape, strict=False) if a != b]
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)  # one variance for each row
        elif input.dim() != var.dim() or sum(differing) != 1:
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    # The bound is no part of the derivative: below it, the variance's gradient goes through.
    var = var + (var.detach().clamp_min(eps) - var.detach())
    losses = ((input - target).square() / var + var.log()) * 0.5
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return _reduced(losses, reduction)


# -- classes ---------------------------------------------------------------------------------


@composed(kinds="function", namespace="nn.functional")
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-target * input)), for targets of 1 and -1."""
    if size_average is not None or reduce is not None:
        reduction = _legacy_reduction(size_average, reduce)
    return _reduced(-_log_sigmoid(target * input), reduction)


@composed(kinds="function", namespace="nn.functional")
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of the binary cross-entropy of each."""
    if size_average is not None or reduce is not None:
        reduction = _legacy_reduction(size_average, reduce)
    losses = -(target * _log_sigmoid(input) + (1 - target) * _log_sigmoid(-input))
    if weight is not None:
        losses = losses * weight
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    return _reduced(losses.sum(-1) / input.shape[-1], reduction)


def _rows_of_classes(name: str, input: Tensor) -> Tensor:
    """(N, C), also for a single row (C) or one number."""
    if input.dim() > 2 or (input.dim() > 0 and input.shape[-1] == 0):
        raise RuntimeError(
            f"{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(input.shape)}"
        )
    return input if input.dim() == 2 else input.reshape(1, -1)


@composed(kinds="function", namespace="nn.functional")
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """How far the other classes come within ``margin`` of the target's, to the power ``p``."""
    if size_average is not None or reduce is not None:
        reduction = _legacy_reduction(size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    _check_reduction(reduction)
    rows = _rows_of_classes("multi_margin_loss", input)
    classes = rows.shape[1]
    if weight is not None:
        if weight.dim() != 1:
            raise ValueError("weight must be one-dimensional")
        if weight.numel() != classes:
            raise RuntimeError(
                f"inconsistent weight size, expected {classes} but got {list(weight.shape)}"
            )
    if target.dim() > 1 or target.numel() != rows.shape[0]:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of rows "
            f"of the input. Expected target size [{rows.shape[0]}], but got {list(target.shape)}"
        )
    index = target.reshape(-1, 1)
    terms = (margin - rows.gather(1, index) + rows).clamp_min(0)
    if p == 2:
        terms = terms * terms
    if weight is not None:
        terms = terms * weight[index]
    losses = terms.scatter(1, index, 0.0).sum(1) / classes
    return _reduced(losses if target.dim() > 0 else losses.reshape(()), reduction)


@composed(kinds="function", namespace="nn.functional")
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """How far classes that are no target come within 1 of those that are.

    A row of ``target`` lists classes; it ends at the first negative number.
    """
    if size_average is not None or reduce is not None:
        reduction = _legacy_reduction(size_average, reduce)
    _check_reduction(reduction)
    rows = _rows_of_classes("multilabel_margin_loss", input)
    if target.shape != input.shape:
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    listed = target.reshape(rows.shape)
    ongoing = (listed < 0).cumsum(1) == 0  # what stands before the first negative number
    index = listed.masked_fill(~ongoing, 0)
    is_target = _core.ops["zeros_like"](listed).scatter_reduce(
        1, index, ongoing.to(listed.dtype), "amax"
    )
    # Every listed class (in the second dimension) against every class.
    terms = 1 - rows.gather(1, index).unsqueeze(2) + rows.unsqueeze(1)
    counted = ongoing.unsqueeze(2) & (is_target == 0).unsqueeze(1)
    losses = terms.clamp_min(0).masked_fill(~counted, 0).sum((1, 2)) / rows.shape[1]
    return _reduced(losses if input.dim() == 2 else losses.reshape(()), reduction)

"""Rows of a table, summed up bag by bag."""

from __future__ import annotations

from typing import Any

from weft import _core
from weft._core import Tensor
from weft.ops._composed import composed
from weft.ops.indexing import _renormalise_rows

_arange = _core.ops["arange"]


def _check_offsets(offsets: Tensor, length: int) -> None:
    values = offsets.tolist()
    if values and values[0] != 0:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            f"position 0. However, got {values[0]}"
        )
    if values and values[-1] > length:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length({length}) but got offsets[-1] of "
            f"{values[-1]}"
        )


def _check_arguments(
    input: Tensor, weight: Tensor, offsets: Any, mode: str, factors: Any, by_frequency: bool
) -> None:
    if factors is not None and factors.shape != input.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({factors.shape}) is not None, then it must "
            f"have the same shape as the input ({input.shape})"
        )
    if weight.dim() != 2:
        raise ValueError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}"
        )
    if input.dim() == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of "
            f"fixed length sequences. However, found offsets of type {type(offsets)}"
        )
    if input.dim() == 1 and (offsets is None or offsets.dim() != 1):
        but = " but got None" if offsets is None else ""
        raise ValueError(f"offsets has to be a 1D Tensor{but}")
    if input.dim() not in (1, 2):
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}"
        )
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and by_frequency:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if factors is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights is not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}')."
        )


@composed(kinds="function", namespace="nn.functional")
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of the rows of ``weight`` that each bag names.

    A bag is a row of a 2D ``input``; of a 1D one, ``offsets`` says where each begins. Indices equal
    to ``padding_idx`` do not count. A bag without indices gives zeros. Gradients are dense.
    """
    _check_arguments(input, weight, offsets, mode, per_sample_weights, scale_grad_by_freq)
    if offsets is None:
        bags, length = input.shape
        bag_of = _arange(bags).repeat_interleave(length)
    else:
        length = input.numel()
        _check_offsets(offsets, length)
        starts = offsets.to(_core.int64)
        if not include_last_offset:
            starts = _core.ops["cat"]([starts, _core.tensor([length])])
        elif starts.numel() == 0:
            raise RuntimeError("include_last_offset: number of offset should be at least 1")
        counts = starts[1:] - starts[:-1]
        bags = counts.numel()
        bag_of = _arange(bags).repeat_interleave(counts)
    indices = input.reshape(-1)[: bag_of.numel()]
    factors = None
    if per_sample_weights is not None:
        factors = per_sample_weights.reshape(-1)[: bag_of.numel()]
    if padding_idx is not None:
        rows = weight.shape[0]
        if not -rows <= padding_idx < rows:
            raise RuntimeError("padding_idx must be within the number of embeddings")
        counted = indices != padding_idx % rows
        indices, bag_of = indices[counted], bag_of[counted]
        factors = None if factors is None else factors[counted]
    if max_norm is not None:
        _renormalise_rows(weight, indices, max_norm, norm_type)

    looked_up = _core.embedding(weight, indices, -1, scale_grad_by_freq, sparse)
    result = weight.new_zeros((bags, weight.shape[1]))
    if mode == "max":
        places = bag_of.unsqueeze(1).expand(looked_up.shape)
        return result.scatter_reduce(0, places, looked_up, "amax", include_self=False)
    if factors is not None:
        looked_up = looked_up * factors.unsqueeze(1)
    result = result.index_add(0, bag_of, looked_up)
    if mode == "mean":
        sizes = result.new_zeros(bags).index_add(0, bag_of, result.new_ones(bag_of.numel()))
        result = result / sizes.clamp_min(1).unsqueeze(1)
    return result

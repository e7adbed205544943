"""Normalisation made of other operations: vectors of length one, angles between vectors, channels
by their neighbours, and softmax as ``nn.functional`` offers it.

Layer norm, batch norm and their kin are core/ops/normalisation.cpp.
"""

from __future__ import annotations

import warnings
from typing import Any

from weft import _core
from weft._core import Tensor
from weft.ops._composed import composed
from weft.ops.shape import broadcast_tensors

_softmax = _core.ops["softmax"]
_log_softmax = _core.ops["log_softmax"]
_vector_norm = _core.ops["linalg_vector_norm"]


def _implicit_dim(name: str, input: Tensor, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if input.dim() in (0, 1, 3) else 1


@composed("softmax", kinds="function", namespace="nn.functional")
def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """exp(x) over its sum along a dimension."""
    if dim is None:
        dim = _implicit_dim("softmax", input, _stacklevel)
    return _softmax(input, dim, dtype)


@composed("log_softmax", kinds="function", namespace="nn.functional")
def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """The logarithm of softmax, without passing through its small numbers."""
    if dim is None:
        dim = _implicit_dim("log_softmax", input, _stacklevel)
    return _log_softmax(input, dim, dtype)


@composed(kinds="function", namespace="nn.functional")
def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Softmax of the negative input: the smallest element gets the largest share."""
    if dim is None:
        dim = _implicit_dim("softmin", input, _stacklevel)
    return _softmax(-input, dim, dtype)


@composed(kinds="function", namespace="nn.functional")
def normalize(
    input: Tensor,
    p: float = 2.0,
    dim: Any = 1,
    eps: float = 1e-12,
    out: Tensor | None = None,
) -> Tensor:
    """Divides by the p-norm along a dimension, or by ``eps`` where the norm is smaller."""
    length = _vector_norm(input, p, dim, True).clamp_min(eps)
    return input / length if out is None else _core.ops["div"](input, length, out=out)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors; lengths count as at least ``eps``."""
    common = _core.promote_types(x1.dtype, x2.dtype)
    if not common.is_floating_point:
        raise RuntimeError(
            f"expected common dtype to be floating point, yet common dtype is {common}"
        )
    if x1.shape != x2.shape:
        x1, x2 = broadcast_tensors(x1, x2)
    x1, x2 = x1.to(common), x2.to(common)
    first = x1 / _vector_norm(x1, 2, dim, True).clamp_min(eps)
    second = x2 / _vector_norm(x2, 2, dim, True).clamp_min(eps)
    return (first * second).sum(dim)


# PyTorch offers this one under both names.
composed(kinds="function")(cosine_similarity)
composed(kinds="function", namespace="nn.functional")(cosine_similarity)


@composed(kinds="function", namespace="nn.functional")
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divides by ``(k + alpha * m) ** beta``, with m the mean square of ``size`` near channels."""
    if input.dim() < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)"
        )
    if input.numel() == 0:
        return input
    before, after = size // 2, (size - 1) // 2
    padding = [0, 0] * (input.dim() - 2) + [before, after]
    squares = _core.ops["constant_pad_nd"](input * input, padding)
    total = squares.unfold(1, size, 1).sum(-1)
    mean = total / size if total.is_floating_point() else total // size
    return input / (mean * alpha + k) ** beta

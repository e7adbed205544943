"""Reductions made of others. Sums, extremes, variances and the like are in ``core/ops``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft import _core
from weft._core import Tensor
from weft.ops._composed import composed, write_out
from weft.ops._results import result_type
from weft.ops.decompositions import nuclear_norm

_amin, _amax = _core.ops["amin"], _core.ops["amax"]
_vector_norm = _core.ops["linalg_vector_norm"]
_aminmax_result = result_type("aminmax", "min", "max")


@composed(kinds="function method out")
def nanmean(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """The mean of the elements that are not NaN."""
    if not input.is_floating_point():
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{input.dtype}"
        )
    count = input.isnan().logical_not().sum(dim, keepdim)
    return input.nansum(dim, keepdim, dtype=dtype) / count


@composed(kinds="function method")
def aminmax(
    input: Tensor,
    *,
    dim: int | None = None,
    keepdim: bool = False,
    out: Sequence[Tensor] | None = None,
) -> Any:
    """The smallest and the largest element, of everything or along one dimension."""
    if dim is None and input.numel() == 0:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
            "identity."
        )
    dims = () if dim is None else (dim,)
    if out is None:
        return _aminmax_result((input.amin(dims, keepdim), input.amax(dims, keepdim)))
    least, most = out
    _amin(input, dims, keepdim, out=least)
    _amax(input, dims, keepdim, out=most)
    return _aminmax_result((least, most))


@composed(kinds="function method")
def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: Any = None,
) -> Tensor:
    """The p-norm of all elements, or along dimensions.

    ``"fro"`` is the Euclidean norm; ``"nuc"`` the nuclear norm of matrices, the sum of their
    singular values.
    """
    if isinstance(p, str):
        if p == "nuc":
            nuclear = nuclear_norm(input if dtype is None else input.to(dtype), dim, keepdim)
            return nuclear if out is None else _into_norm(nuclear, out)
        if p != "fro":
            raise RuntimeError(f"linalg.matrix_norm: Order {p} not supported.")
        if isinstance(dim, Sequence) and len(dim) > 2:
            raise RuntimeError(
                f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dim))}"
            )
        p = 2.0
    order = 2.0 if p is None else p
    if out is None and dtype is None:
        return _vector_norm(input, order, dim, keepdim)
    return _vector_norm(input, order, dim, keepdim, dtype=dtype, out=out)


def _into_norm(result: Tensor, out: Tensor) -> Tensor:
    if out.dtype != result.dtype:
        raise RuntimeError(
            f"linalg.matrix_norm expected out tensor dtype {result.dtype} but got: {out.dtype}"
        )
    write_out("norm", result, out)
    return out


@composed(kinds="function method")
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Differences of neighbours along a dimension, taken ``n`` times."""
    if input.dim() == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    for edge in (prepend, append):
        if edge is not None and edge.dim() != input.dim():
            raise RuntimeError(
                "diff expects prepend or append to be the same dimension as input: "
                f"got {edge.dim()} and {input.dim()} dimensions"
            )
    parts = [part for part in (prepend, input, append) if part is not None]
    result = _core.ops["cat"](parts, dim) if len(parts) > 1 and n > 0 else input
    if n == 0:
        result = result.clone()
    for _ in range(min(n, result.shape[dim])):
        shorter = result.shape[dim] - 1
        later, earlier = result.narrow(dim, 1, shorter), result.narrow(dim, 0, shorter)
        result = later.logical_xor(earlier) if result.dtype is _core.bool else later - earlier
    if out is None:
        return result
    if out.dtype != result.dtype:
        raise RuntimeError(
            f"diff(): expected an out tensor of dtype {result.dtype} but found {out.dtype}"
        )
    write_out("diff", result, out)
    return out


@composed(kinds="function method")
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix."""
    if input.dim() != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.dim()}")
    if input.dtype is _core.bool:
        raise NotImplementedError("\"trace\" not implemented for 'Bool'")
    return input.diagonal().sum()

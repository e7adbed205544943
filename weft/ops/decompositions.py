"""Decompositions of matrices, and what is made of singular values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft import _core
from weft._core import Tensor
from weft.ops._composed import composed, write_out
from weft.ops._results import result_type

_svd = _core.ops["_linalg_svd"]
_nuclear_norm = _core.ops["_nuclear_norm"]
_linalg_svd_result = result_type("linalg_svd", "U", "S", "Vh")
_svd_result = result_type("svd", "U", "S", "V")


def _refuse_driver(driver: str | None) -> None:
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with "
            f"cuSOLVER backend: leave out driver={driver!r}."
        )


def _needs_gradient(input: Tensor) -> bool:
    return input.requires_grad and _core.is_grad_enabled()


@composed("svd", kinds="function", namespace="linalg")
def linalg_svd(
    A: Tensor, full_matrices: bool = True, *, driver: str | None = None, out: Any = None
) -> Any:
    """Singular value decompositions of matrices: ``A = U @ diag(S) @ Vh``.

    Returns a named tuple ``(U, S, Vh)``: singular values fall, the columns of ``U`` and the rows of
    ``Vh`` are orthonormal. With ``full_matrices=False`` ``U`` and ``Vh`` have only the vectors that
    belong to singular values. Gradients of ``U`` and ``Vh`` exist where no two singular values are
    equal.

        U, S, Vh = weft.linalg.svd(A, full_matrices=False)
        A_again = (U * S) @ Vh
    """
    _refuse_driver(driver)
    result = _linalg_svd_result(tuple(_svd(A, full_matrices, True)))
    return result if out is None else _linalg_svd_result(write_out("linalg_svd", result, out))


@composed("svdvals", kinds="function out", namespace="linalg")
def linalg_svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values of matrices, the largest first."""
    _refuse_driver(driver)
    values: Tensor = _svd(A, False, _needs_gradient(A))[1]
    return values


@composed(kinds="function method")
def svd(input: Tensor, some: bool = True, compute_uv: bool = True, *, out: Any = None) -> Any:
    """Singular value decompositions, ``input = U @ diag(S) @ V.mT``: see :func:`weft.linalg.svd`.

    With ``some=False`` ``U`` and ``V`` are square. With ``compute_uv=False`` they are zeros.
    """
    if input.dim() < 2:
        raise RuntimeError(
            f"linalg.svd: input should have at least 2 dimensions, but has {input.dim()} "
            "dimensions instead"
        )
    if compute_uv:
        U, S, Vh = _svd(input, not some, True)
        V = Vh.mT
    else:
        S = linalg_svdvals(input)
        *batch, rows, columns = input.shape
        U = input.new_zeros((*batch, rows, rows))
        V = input.new_zeros((*batch, columns, columns))
    result = _svd_result((U, S, V))
    return result if out is None else _svd_result(write_out("svd", result, out))


def nuclear_norm(input: Tensor, dim: int | Sequence[int] | None, keepdim: bool) -> Tensor:
    """The sum of the singular values of the matrices that lie along two dimensions.

    Unlike those of the singular vectors, its gradient exists where singular values are equal.
    """
    dims = tuple(range(input.dim())) if dim is None else (dim,) if isinstance(dim, int) else dim
    if input.dim() < 2:
        raise RuntimeError(
            "linalg.matrix_norm: The input tensor A must have at least 2 dimensions."
        )
    if len(dims) != 2:
        raise RuntimeError(
            f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dims))}"
        )
    rows, columns = (_wrapped(d, input.dim()) for d in dims)
    if rows == columns:
        raise RuntimeError(
            f"linalg.matrix_norm: dims must be different. Got ({dims[0]}, {dims[1]})"
        )
    if input.dtype in (_core.float16, _core.bfloat16):
        raise RuntimeError(
            "linalg.matrix_norm: Low precision dtypes not supported. "
            f"Got {input.dtype}: convert with .float()"
        )
    are_last = (rows, columns) == (input.dim() - 2, input.dim() - 1)
    matrices = input if are_last else input.movedim((rows, columns), (-2, -1))
    if _needs_gradient(input):
        norm: Tensor = _nuclear_norm(matrices)[0]
    else:
        norm = linalg_svdvals(matrices).sum(-1)
    if keepdim:
        for d in sorted((rows, columns)):
            norm = norm.unsqueeze(d)
    return norm


def _wrapped(dim: int, ndim: int) -> int:
    if not -ndim <= dim < ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], "
            f"but got {dim})"
        )
    return dim % ndim

"""Reading and writing by index, made of the operations of core/ops/{index,gather,mask}.cpp."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from weft import _core
from weft._core import Tensor
from weft.ops._composed import composed

Number = bool | int | float


# -- several dimensions at once ----------------------------------------------------------------


def _positions(self: Tensor, indices: object, name: str) -> tuple[list[Tensor], list[int]]:
    """Index tensors as positions, and the dimensions they index. Masks are taken apart."""
    if isinstance(indices, Tensor) or not isinstance(indices, tuple | list):
        raise TypeError(
            f"{name}(): argument 'indices' (position 1) must be tuple of Tensors, "
            f"not {type(indices).__name__}"
        )
    for position, index in enumerate(indices):
        if index is not None and not isinstance(index, Tensor):
            raise TypeError(
                f"expected Tensor as element {position} in argument 0, "
                f"but got {type(index).__name__}"
            )
        if index is not None and index.dtype == _core.uint8:
            warnings.warn(
                "indexing with dtype torch.uint8 is now deprecated, "
                "please use a dtype torch.bool instead.",
                stacklevel=3,
            )
    found = _core.ops["_index_positions"](self, list(indices))
    dims = [dim for dim, index in enumerate(found) if index is not None]
    return [found[dim] for dim in dims], dims


def _put(
    self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool, name: str
) -> Tensor:
    positions, dims = _positions(self, indices, name)
    if positions:
        return self._index_put_(values, positions, dims, accumulate)
    return self.add_(values) if accumulate else self.copy_(values)


@composed("index_put_", kinds="method")
def index_put_(
    self: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
) -> Tensor:
    """Writes ``values`` where ``indices`` point: ``self[indices] = values``, with tensors only.

    With ``accumulate``, the values are added to what is there; where several meet, all of them.
    """
    return _put(self, indices, values, accumulate, "index_put_")


@composed(kinds="function method out")
def index_put(
    input: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
) -> Tensor:
    """A copy of ``input`` in which ``values`` stand where ``indices`` point.

    With ``accumulate``, the values are added to what is there; where several meet, all of them.
    """
    return _put(input.clone(), indices, values, accumulate, "index_put")


# -- places of elements ------------------------------------------------------------------------


@composed(kinds="function method")
def nonzero(
    input: Tensor, *, as_tuple: bool = False, out: Tensor | None = None
) -> Tensor | tuple[Tensor, ...]:
    """The coordinates of the elements that are not zero, a row for each.

    With ``as_tuple``, a tensor for each dimension instead, which can be used as an index.
    """
    if not as_tuple:
        return _core.ops["nonzero"](input, out=out)
    if out is not None:
        raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
    return _core.ops["where"](input)


@composed(kinds="function method")
def argwhere(input: Tensor) -> Tensor:
    """The coordinates of the elements that are not zero, a row for each."""
    return _core.ops["nonzero"](input)


# -- along one dimension -----------------------------------------------------------------------


@composed(kinds="function method")
def take_along_dim(
    input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Reads ``input`` at ``indices`` along ``dim``; the other dimensions are broadcast.

    Without ``dim``, both are flattened. The indices of ``argsort`` and ``argmax`` (with
    ``keepdim``) fit. Negative indices count from the end.
    """
    if indices.dtype not in (_core.int64, _core.int32):
        raise RuntimeError(
            "torch.take_along_dim(): dtype of indices should be Long or Int "
            f"but got {indices.dtype}"
        )
    if dim is None:
        return _core.gather(input.reshape(-1), 0, indices.reshape(-1), out=out)
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of "
            f"dimensions, but got {input.ndim} dimensions for input, and {indices.ndim} "
            "dimensions for indices"
        )
    along = _wrapped(dim, input.ndim)
    shape = list(input.shape)
    index_shape = list(indices.shape)
    for d in range(input.ndim):
        if d != along:
            shape[d] = index_shape[d] = _broadcast_size(shape[d], index_shape[d], d)
    size = shape[along] if shape else 1
    places = _core.ops["where"](indices < 0, indices + size, indices).expand(index_shape)
    return _core.gather(input.expand(shape), along, places, out=out)


def _broadcast_size(a: int, b: int, dim: int) -> int:
    if a != b and a != 1 and b != 1:
        raise RuntimeError(
            f"The size of tensor a ({a}) must match the size of tensor b ({b}) at "
            f"non-singleton dimension {dim}"
        )
    return b if a == 1 else a


def _wrapped(dim: int, ndim: int) -> int:
    bound = max(ndim, 1)
    if not -bound <= dim < bound:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], "
            f"but got {dim})"
        )
    return dim % bound


def _reduced_places(
    self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str
) -> tuple[int, Tensor]:
    """The dimension, and an index for every element of ``source``."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin "
            f"but got {reduce}."
        )
    along = _wrapped(dim, self.ndim)
    if index.ndim > 1:
        raise IndexError("index_reduce_(): Index is supposed to be a vector")
    if source.ndim != self.ndim:
        raise RuntimeError(
            f"index_reduce_(): self has {self.ndim} dimensions and source has {source.ndim}"
        )
    length = source.shape[along] if source.ndim else 1
    if index.numel() != length:
        raise RuntimeError(
            f"index_reduce_(): Number of indices ({index.numel()}) should be equal to "
            f"self.size(dim): ({length}), for dim: {along}"
        )
    shape = [n for d, n in enumerate(self.shape) if d != along]
    if shape != [n for d, n in enumerate(source.shape) if d != along]:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified "
            f"dimension. Got self.shape = {list(self.shape)} source.shape = {list(source.shape)}"
        )
    beside = [-1 if d == along else 1 for d in range(source.ndim)]
    return along, index.reshape(beside).expand(source.shape)


@composed(kinds="function method")
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """Combines slices of ``source`` along ``dim`` with those of ``input`` that ``index`` names.

    ``reduce`` is ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``. Without ``include_self``, what
    stood in the places that are written does not count.
    """
    along, places = _reduced_places(input, dim, index, source, reduce)
    return _core.scatter_reduce(
        input, along, places, source, reduce, include_self=include_self, out=out
    )


@composed("index_reduce_", kinds="method")
def index_reduce_(
    self: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """``index_reduce``, written into the tensor itself."""
    along, places = _reduced_places(self, dim, index, source, reduce)
    return self.scatter_reduce_(along, places, source, reduce, include_self=include_self)


# -- embedding -----------------------------------------------------------------------------------


@composed(namespace="nn.functional", kinds="function")
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of ``weight`` that ``input`` names.

    The row ``padding_idx`` receives no gradient. With ``max_norm``, rows that are read and whose
    norm is larger are scaled down to it first, in ``weight`` itself. With ``scale_grad_by_freq``,
    a row's gradient is divided by how often it was read. Gradients are dense: ``sparse`` changes
    nothing.
    """
    if padding_idx is not None:
        rows = weight.shape[0]
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    else:
        padding_idx = -1
    if max_norm is not None:
        _renormalise_rows(weight, input, max_norm, norm_type)
    return _core.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def _renormalise_rows(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> None:
    """Scales the rows that are read down to ``max_norm``, in place and without history."""
    table = weight.detach()
    rows = _core.ops["_unique"](indices.reshape(-1), False, False, False)[0]
    chosen = table.index_select(0, rows)
    norms = chosen.norm(norm_type, 1, True)
    scale = _core.ops["where"](norms > max_norm, max_norm / (norms + 1e-7), 1.0)
    table.index_copy_(0, rows, (chosen * scale).to(table.dtype))

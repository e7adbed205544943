"""Joining, splitting, turning and combining: what follows from a few primitives."""

from __future__ import annotations

import array
import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from weft import _core
from weft._memory_format import contiguous_format
from weft._size import Size
from weft.ops._composed import composed

Tensor = _core.Tensor


def _listed(tensors: tuple[Any, ...]) -> list[Tensor]:
    """Tensors given one by one or as one sequence."""
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        return list(tensors[0])
    return list(tensors)


# -- at least so many dimensions -------------------------------------------------------------


def _at_least(name: str, grow: Callable[[Tensor], Tensor], tensors: tuple[Any, ...]) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return grow(tensors[0])
    for position, item in enumerate(items := _listed(tensors)):
        if not isinstance(item, Tensor):
            raise TypeError(
                f"{name}(): expected Tensor as element {position} in argument 0, "
                f"but got {type(item).__name__}"
            )
    return tuple(grow(item) for item in items)


def _one_dim(x: Tensor) -> Tensor:
    return x.reshape(1) if x.ndim == 0 else x


def _two_dims(x: Tensor) -> Tensor:
    if x.ndim == 0:
        return x.reshape(1, 1)
    return x.unsqueeze(0) if x.ndim == 1 else x


def _three_dims(x: Tensor) -> Tensor:
    if x.ndim == 0:
        return x.reshape(1, 1, 1)
    if x.ndim == 1:
        return x.unsqueeze(0).unsqueeze(-1)
    return x.unsqueeze(-1) if x.ndim == 2 else x


@composed(kinds="function")
def atleast_1d(*tensors: Any) -> Any:
    """Tensors of no dimension get one."""
    return _at_least("atleast_1d", _one_dim, tensors)


@composed(kinds="function")
def atleast_2d(*tensors: Any) -> Any:
    """Tensors of fewer than two dimensions get leading ones."""
    return _at_least("atleast_2d", _two_dims, tensors)


@composed(kinds="function")
def atleast_3d(*tensors: Any) -> Any:
    """Tensors of fewer than three dimensions get a leading and trailing ones."""
    return _at_least("atleast_3d", _three_dims, tensors)


# -- joining and splitting --------------------------------------------------------------------


def _checked_list(name: str, tensors: Any) -> list[Tensor]:
    if isinstance(tensors, Tensor) or not isinstance(tensors, list | tuple):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, "
            f"not {type(tensors).__name__}"
        )
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    for position, item in enumerate(tensors):
        if not isinstance(item, Tensor):
            raise TypeError(
                f"expected Tensor as element {position} in argument 0, "
                f"but got {type(item).__name__}"
            )
    return list(tensors)


@composed(kinds="function out")
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Side by side: along the second dimension, or along the only one."""
    items = [_one_dim(x) for x in _checked_list("hstack", tensors)]
    return _core.cat(items, 0 if items[0].ndim == 1 else 1)


@composed(kinds="function out")
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """One below the other: along the first dimension; vectors become rows."""
    return _core.cat([_two_dims(x) for x in _checked_list("vstack", tensors)], 0)


@composed(kinds="function out")
def row_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Another name of `vstack`."""
    return _core.cat([_two_dims(x) for x in _checked_list("row_stack", tensors)], 0)


@composed(kinds="function out")
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """One behind the other: along the third dimension."""
    return _core.cat([_three_dims(x) for x in _checked_list("dstack", tensors)], 2)


@composed(kinds="function out")
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """As `hstack`, but vectors become columns."""
    items = _checked_list("column_stack", tensors)
    return _core.cat([x.reshape(x.numel(), 1) if x.ndim <= 1 else x for x in items], 1)


def _split_along(name: str, input: Tensor, dim: int, least: int, where: Any) -> tuple[Tensor, ...]:
    if input.ndim < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension, "
            f"but got a tensor with {input.ndim} dimensions!"
        )
    if isinstance(where, int):
        size = input.shape[dim]
        if where <= 0 or size % where:
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {dim}, but the size of the "
                f"dimension {size} is not divisible by the split_size {where}!"
            )
    return input.tensor_split(where, dim)


@composed()
def hsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Splits along the second dimension, or along the only one."""
    return _split_along("hsplit", input, 0 if input.ndim == 1 else 1, 1, indices_or_sections)


@composed()
def vsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Splits along the first dimension."""
    return _split_along("vsplit", input, 0, 2, indices_or_sections)


@composed()
def dsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Splits along the third dimension."""
    return _split_along("dsplit", input, 2, 3, indices_or_sections)


@composed()
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of the part that `narrow` shows."""
    return input.narrow(dim, start, length).clone(memory_format=contiguous_format)


# -- turning ------------------------------------------------------------------------------------


@composed()
def fliplr(input: Tensor) -> Tensor:
    """Columns in reverse order."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return input.flip(1)


@composed()
def flipud(input: Tensor) -> Tensor:
    """Rows in reverse order."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return input.flip(0)


@composed()
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turns by `k` times 90 degrees, from the first of `dims` towards the second."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    first, second = dims
    if first == second or abs(first - second) == input.ndim:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {first} and dim1 = {second}"
        )
    for dim in dims:
        if not -input.ndim <= dim < input.ndim:
            raise RuntimeError(f"Rotation dim{dims.index(dim)} out of range, dim = {dim}")
    match k % 4:
        case 1:
            return input.flip(second).transpose(first, second)
        case 2:
            return input.flip((first, second))
        case 3:
            return input.flip(first).transpose(first, second)
        case _:
            return input.clone(memory_format=contiguous_format)


# -- broadcasting and combining ----------------------------------------------------------------


@composed(kinds="function")
def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """The shape that tensors of these shapes have when they meet."""
    result: list[int] = []
    for position, shape in enumerate(shapes):
        sizes = [shape] if isinstance(shape, int) else list(shape)
        result = [1] * (len(sizes) - len(result)) + result
        for back, size in enumerate(reversed(sizes), start=1):
            if size < 0:
                raise ValueError("Attempting to broadcast a dimension with negative length!")
            if size == 1 or size == result[-back]:
                continue
            if result[-back] != 1:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {size} at -{back}! Mismatching "
                    f"argument at index {position} had {tuple(sizes)}; but expected shape should "
                    f"be broadcastable to {result}"
                )
            result[-back] = size
    return Size(result)


@composed(kinds="function")
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """The tensors, expanded to the shape that they have when they meet."""
    items = _listed(tensors)
    shape = broadcast_shapes(*(x.shape for x in items))
    return tuple(x.expand(shape) for x in items)


@composed(kinds="function")
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """The coordinates of a grid: one tensor for each axis, each of the grid's shape."""
    items = [_one_dim(x) for x in _listed(tensors)]
    if not items:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for item in items:
        if item.ndim != 1:
            raise RuntimeError(
                "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got a tensor of "
                f"shape {list(item.shape)}"
            )
        if item.dtype != items[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    if indexing is None:
        warnings.warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing "
            "argument.",
            UserWarning,
            stacklevel=2,
        )
    elif indexing not in ("ij", "xy"):
        raise RuntimeError(
            'torch.meshgrid: indexing must be one of "xy" or "ij", but received: ' + indexing
        )
    swapped = indexing == "xy" and len(items) > 1
    if swapped:
        items[0], items[1] = items[1], items[0]
    shape = [x.shape[0] for x in items]
    grids = []
    for axis, item in enumerate(items):
        own = [1] * len(items)
        own[axis] = shape[axis]
        grids.append(item.view(own).expand(shape))
    if swapped:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


@composed(kinds="function")
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Every combination of one element from each vector, one to a row."""
    items = _listed(tensors)
    for item in items:
        if item.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(item.shape)}")
    if len(items) == 1:
        return items[0]
    return _core.stack([grid.flatten() for grid in meshgrid(*items, indexing="ij")], 1)


@composed()
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Every choice of `r` elements of a vector, in order, one to a row."""
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty(0)
    length = input.shape[0]
    rows = _number_of_choices(length + r - 1 if with_replacement else length, r)
    _core.empty(rows, r, dtype=_core.int64)  # refuses what does not fit before it is counted out
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    chosen = array.array("q", itertools.chain.from_iterable(choose(range(length), r)))
    return input[_core.tensor(chosen, dtype=_core.int64)].reshape(-1, r)


def _number_of_choices(length: int, r: int) -> int:
    """How many ways there are to choose ``r`` of ``length``; stops counting beyond any memory."""
    count = 1 if 0 <= r <= length else 0
    for k in range(min(r, length - r)):
        count = count * (length - k) // (k + 1)
        if count > 2**62:
            raise RuntimeError(
                f"combinations(): choosing {r} of {length} gives more rows than memory can hold"
            )
    return count


@composed(kinds="function")
def block_diag(*tensors: Any) -> Tensor:
    """Matrices along the diagonal of a larger one, zero elsewhere."""
    blocks = []
    for position, item in enumerate(_listed(tensors)):
        if item.ndim > 2:
            raise RuntimeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. "
                f"Input {position} has {item.ndim} dimensions"
            )
        blocks.append(_two_dims(item))
    width, left = sum(block.shape[1] for block in blocks), 0
    rows = []
    for block in blocks:
        right = width - left - block.shape[1]
        rows.append(_core.constant_pad_nd(block, (left, right)))
        left += block.shape[1]
    return _core.cat(rows) if rows else _core.empty(1, 0)


@composed()
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with the elements of the input along one diagonal."""
    return input.flatten().diag(offset)


# -- classes ------------------------------------------------------------------------------------


@composed(name="one_hot", kinds="function", namespace="nn.functional")
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Each class index as a row of zeros with a one at that index."""
    if tensor.dtype != _core.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return tensor.new_empty((*tensor.shape, num_classes))
    if int(tensor.min()) < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes == -1:
        num_classes = int(tensor.max()) + 1
    elif num_classes <= int(tensor.max()):
        raise RuntimeError("Class values must be smaller than num_classes.")
    return (tensor.unsqueeze(-1) == _core.arange(num_classes)).long()

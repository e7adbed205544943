"""Tensors as arrays that follow each other in a file, and back.

Note [What is kept of memory]
Other programs read a file as named arrays, row by row, without holes. So a tensor becomes such an
array of its values: a small view of large memory keeps only what it shows. What an array alone
does not tell is written beside it:

* Tensors that look at the same memory share one array. If they are not all the same view of it,
  the array is the memory they span together (one of them, if it covers the others), and each of the
  others is a view with an offset and strides of its own.
* The order of dimensions in memory (a transposed matrix, channels-last images): the values are
  written row by row, and laid back in that order on loading.
* A tensor larger than its memory (`expand`) is kept as its memory and a view.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from weft import _core
from weft.keeping._tree import Malformed, Path, dtype_called, is_parameter

Tensor = _core.Tensor


class View(NamedTuple):
    """Where a tensor lies in memory. `start` and `end` are bytes from the storage's beginning."""

    dtype: Any
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    start: int
    end: int


class Array(NamedTuple):
    """One array of a file: what its entry says, and how to get at its bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    data: Callable[[], memoryview]
    strides: tuple[int, ...] | None  # the order in memory, if it is not row by row
    device: str = "cpu"


# ---- tensors to arrays ---------------------------------------------------------------------------


def arrays_of(found: list[tuple[Any, Path]]) -> tuple[list[Array], list[dict[str, Any]]]:
    """The arrays that hold all tensors, and for each tensor how it is made of one of them."""
    by_storage: dict[int, list[int]] = {}
    storages: list[Any] = []  # of each tensor, as bytes; kept, so that no address is used twice
    for number, (tensor, _) in enumerate(found):
        storage = _core._storage_bytes(tensor if tensor.is_cpu else tensor.detach().cpu())
        storages.append(storage)
        # What has no elements shares nothing.
        key = storage.data_ptr() if tensor.numel() else -1 - number
        by_storage.setdefault(key, []).append(number)
    views = [_view(tensor) for tensor, _ in found]

    names = _Names()
    arrays: list[Array] = []
    descriptions: list[dict[str, Any]] = [{} for _ in found]
    for members in by_storage.values():
        for cluster in _overlapping(members, views):
            chosen = cluster[0]
            start = views[chosen].start
            if len({views[number] for number in cluster}) == 1:
                array, is_span = _array_of_one(found[chosen][0], views[chosen], storages[chosen])
            else:
                chosen, start, array = _array_of_several(cluster, views, storages[chosen])
                is_span = True
            tensor, path = found[chosen]
            array = array._replace(name=names.new(path), device=str(tensor.device))
            arrays.append(array)
            for number in cluster:
                descriptions[number] = _description(found[number][0], array.name)
                if is_span and not _is_whole(views[number], array):
                    descriptions[number]["view"] = _relative(views[number], start)
    return arrays, descriptions


def _view(tensor: Any) -> View:
    sizes, strides, dtype = tuple(tensor.shape), tensor.stride(), tensor.dtype
    if not tensor.numel():
        return View(dtype, sizes, strides, 0, 0)
    start = tensor.storage_offset() * dtype.itemsize
    span = tensor.numel()
    if not tensor.is_contiguous():
        span = 1 + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
    return View(dtype, sizes, strides, start, start + span * dtype.itemsize)


def _overlapping(members: list[int], views: list[View]) -> list[list[int]]:
    """Groups of tensors of one storage whose spans of memory meet."""
    if len(members) == 1:
        return [members]
    groups: list[list[int]] = []
    end = -1
    for number in sorted(members, key=lambda number: (views[number].start, number)):
        if views[number].start >= end:
            groups.append([])
        groups[-1].append(number)
        end = max(end, views[number].end)
    return [sorted(group) for group in groups]


def _array_of_one(tensor: Any, view: View, storage: Any) -> tuple[Array, bool]:
    """The array of tensors that are one and the same view; whether it is memory, not values."""
    nbytes = tensor.numel() * tensor.element_size()
    if tensor.is_contiguous():
        return _memory(view.dtype, view.sizes, storage, view.start, nbytes), True
    if nbytes > view.end - view.start:
        count = (view.end - view.start) // tensor.element_size()
        return _memory(view.dtype, (count,), storage, view.start, view.end - view.start), True
    dense = nbytes == view.end - view.start
    plain = tensor.detach()
    return Array(
        "",
        view.dtype.name,
        view.sizes,
        nbytes,
        # Made when it is written, and again for the checksum: all copies at once would double the
        # memory in use.
        lambda: memoryview(_core._storage_bytes(plain.cpu().contiguous())),
        view.strides if dense else None,
    ), False


def _array_of_several(
    cluster: list[int], views: list[View], storage: Any
) -> tuple[int, int, Array]:
    """The array of different views of the same memory: which tensor names it, where it begins."""
    start = min(views[number].start for number in cluster)
    end = max(views[number].end for number in cluster)
    if any((views[number].start - start) % views[number].dtype.itemsize for number in cluster):
        start = start // 16 * 16
    for number in cluster:
        view = views[number]
        if (view.start, view.end) == (start, end) and _row_by_row(view):
            return number, start, _memory(view.dtype, view.sizes, storage, start, end - start)
    dtypes = {views[number].dtype for number in cluster}
    dtype = dtypes.pop() if len(dtypes) == 1 else _core.uint8
    shape = ((end - start) // dtype.itemsize,)
    return cluster[0], start, _memory(dtype, shape, storage, start, end - start)


def _memory(dtype: Any, shape: tuple[int, ...], storage: Any, start: int, nbytes: int) -> Array:
    name = dtype.name
    return Array("", name, shape, nbytes, lambda: memoryview(storage)[start : start + nbytes], None)


def contiguous_strides(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a tensor that lies row by row."""
    strides = []
    step = 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _row_by_row(view: View) -> bool:
    expected = contiguous_strides(view.sizes)
    found = zip(view.sizes, view.strides, expected, strict=True)
    return all(size == 1 or step == right for size, step, right in found)


def _is_whole(view: View, array: Array) -> bool:
    return (
        (view.dtype.name, view.sizes) == (array.dtype, array.shape)
        and view.end - view.start == array.nbytes
        and _row_by_row(view)
    )


def _relative(view: View, start: int) -> list[Any]:
    offset = (view.start - start) // view.dtype.itemsize
    return [view.dtype.name, list(view.sizes), list(view.strides), offset]


def _description(tensor: Any, array: str) -> dict[str, Any]:
    result: dict[str, Any] = {"array": array}
    if tensor.requires_grad:
        result["requires_grad"] = True
    if is_parameter(type(tensor)):
        result["parameter"] = True
    return result


class _Names:
    """Names of arrays: the way to the first tensor in each, joined by dots."""

    def __init__(self) -> None:
        self._taken = {"", "__metadata__"}

    def new(self, path: Path) -> str:
        wished = ".".join(map(str, path)).encode("utf-8", "replace").decode() or "tensor"
        name, number = wished, 1
        while name in self._taken:
            number += 1
            name = f"{wished}#{number}"
        self._taken.add(name)
        return name


# ---- arrays to tensors ---------------------------------------------------------------------------


def laid_out(array: Any, strides: Any) -> Any:
    """The same values in the order in memory that `strides` say."""
    if type(strides) is not list or not all(type(step) is int for step in strides):
        raise Malformed("strides are no list of numbers")
    sizes = tuple(array.shape)
    if len(strides) != len(sizes) or not _is_dense(sizes, strides):
        raise Malformed(f"strides {strides} do not lay out the shape {list(sizes)} without holes")
    result = _core.empty_strided(sizes, strides, dtype=array.dtype)
    return result.copy_(array)


def _is_dense(sizes: tuple[int, ...], strides: list[int]) -> bool:
    step = 1
    for stride, size in sorted((stride, size) for size, stride in zip(sizes, strides, strict=True)):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return all(stride >= 0 for stride in strides)


def tensor_of(description: Any, arrays: dict[str, Any], used: set[str]) -> Any:
    """The tensor that a description (see `_description`) makes of one of the arrays."""
    if type(description) is not dict:
        raise Malformed("the description of a tensor is no object")
    name = description.get("array")
    array = arrays.get(name) if type(name) is str else None
    if array is None or not description.keys() <= _DESCRIBED:
        raise Malformed("a tensor is made of an array that is not there")
    assert type(name) is str
    if "view" in description:
        result = _view_of_array(array, description["view"])
    elif name in used:
        result = view_of(array, array.dtype, array.shape, array.stride(), 0)
    else:
        used.add(name)
        result = array
    requires_grad = description.get("requires_grad", False) is True
    if requires_grad and not result.is_floating_point():
        raise Malformed("a tensor of whole numbers is said to require a gradient")
    if description.get("parameter", False) is True:
        return parameter_of(result, requires_grad)
    return result.requires_grad_() if requires_grad else result


def parameter_of(data: Any, requires_grad: bool) -> Any:
    """A parameter over `data`. Most files have none, and need no weft.nn."""
    from weft.nn.parameter import Parameter

    return Parameter(data, requires_grad)


_DESCRIBED = {"array", "view", "requires_grad", "parameter"}


def _view_of_array(array: Any, view: Any) -> Any:
    if type(view) is not list or len(view) != 4:
        raise Malformed("a view is not described by four things")
    dtype, sizes, strides, offset = view
    return view_of(array, dtype_called(dtype), sizes, strides, offset)


def view_of(memory: Any, dtype: Any, sizes: Any, strides: Any, offset: Any) -> Any:
    """A tensor over the storage of `memory`, checked to lie inside it."""
    for numbers in (sizes, strides, (offset,)):
        if not isinstance(numbers, list | tuple) or not all(
            type(number) is int and 0 <= number < 1 << 63 for number in numbers
        ):
            raise Malformed("a view's sizes, strides or offset are not whole numbers")
    try:
        return _core._over_storage(memory, dtype, tuple(sizes), tuple(strides), offset)
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise Malformed(str(error)) from None

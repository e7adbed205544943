"""How a list of samples becomes a batch."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import weft
from weft import _core

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]

CollateMap = dict[type | tuple[type, ...], Callable[..., Any]]

default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


def default_convert(data: Any) -> Any:
    """Numpy arrays (in containers, too) as tensors over the same memory; all else unchanged.

    What `DataLoader` does to samples where it makes no batches (`batch_size=None`).
    """
    if isinstance(data, _core.Tensor):
        return data
    kind = type(data)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(data, numpy.ndarray | numpy.generic):
        return data if data.dtype.kind in "SUO" else weft.as_tensor(data)
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return kind(*(default_convert(item) for item in data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if kind is list:
        return [default_convert(item) for item in data]
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _like_sequence(data, [default_convert(item) for item in data])
    return data


def _like_mapping(sample: Any, content: dict[Any, Any]) -> Any:
    """`content` in a mapping of the sample's class, with what else the sample carries."""
    try:
        if isinstance(sample, MutableMapping):
            clone = copy.copy(sample)
            clone.update(content)
            return clone
        return type(sample)(content)
    except TypeError:  # a class that cannot be made like this
        return content


def _like_sequence(sample: Any, content: list[Any]) -> Any:
    """`content` in a sequence of the sample's class, with what else the sample carries."""
    try:
        if isinstance(sample, MutableSequence):
            clone: Any = copy.copy(sample)
            for position, item in enumerate(content):
                clone[position] = item
            return clone
        return type(sample)(content)
    except TypeError:  # a class that cannot be made like this, such as range
        return content


def collate(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Makes a batch of samples: containers item by item, the rest by the functions of the map.

    The map names a function for each class of sample; it is called as
    `function(samples, collate_fn_map=map)`.
    """
    sample = batch[0]
    kind = type(sample)
    if collate_fn_map is not None:
        function = collate_fn_map.get(kind) or _function_for(sample, collate_fn_map)
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)
    # The usual containers first: asking for an abstract class takes as long as stacking tensors.
    if kind is tuple or kind is list:
        return [collate(column, collate_fn_map=collate_fn_map) for column in _columns(batch)]
    if kind is dict or isinstance(sample, Mapping):
        content = {
            key: collate([one[key] for one in batch], collate_fn_map=collate_fn_map)
            for key in sample
        }
        return content if kind is dict else _like_mapping(sample, content)
    if isinstance(sample, Sequence):
        items = [collate(column, collate_fn_map=collate_fn_map) for column in _columns(batch)]
        if isinstance(sample, tuple):
            return kind(*items) if hasattr(sample, "_fields") else items
        return _like_sequence(sample, items)
    raise TypeError(default_collate_err_msg_format.format(kind))


def _columns(batch: Any) -> list[Any]:
    """Of each item of the samples all samples' values."""
    try:
        return list(zip(*batch, strict=True))
    except ValueError:
        raise RuntimeError(
            "each element in list of batch should be of equal size, but their lengths are "
            f"{[len(one) for one in batch]}: pass a collate_fn that pads them"
        ) from None


def _function_for(sample: Any, collate_fn_map: CollateMap) -> Callable[..., Any] | None:
    if collate_fn_map is default_collate_fn_map:
        _add_numpy()
    for kind, function in collate_fn_map.items():
        if isinstance(sample, kind):
            return function
    return None


def collate_tensor_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> _core.Tensor:
    return weft.stack(batch)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    first = batch[0]
    if first.dtype.kind in "SUO":
        raise TypeError(default_collate_err_msg_format.format(first.dtype))
    # What as_tensor() does to an array, without asking each time whether it is one.
    kind = type(first) if first.ndim else None
    tensors = [
        _core._from_buffer(array) if type(array) is kind else weft.as_tensor(array)
        for array in batch
    ]
    return collate(tensors, collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    return weft.as_tensor(batch)


def collate_float_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> _core.Tensor:
    return weft.tensor(batch, dtype=weft.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> _core.Tensor:
    return weft.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    return batch


default_collate_fn_map: CollateMap = {
    _core.Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def _add_numpy() -> None:
    """Numpy's classes, as soon as there can be samples of them: weft does not import numpy."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not hasattr(numpy, "ndarray") or numpy.ndarray in default_collate_fn_map:
        return
    before = dict(default_collate_fn_map)
    default_collate_fn_map.clear()
    # Before float, which numpy.float64 is derived from.
    default_collate_fn_map[numpy.ndarray] = collate_numpy_array_fn
    default_collate_fn_map[(numpy.bool_, numpy.number, numpy.object_)] = collate_numpy_scalar_fn
    default_collate_fn_map.update(before)


def default_collate(batch: Any) -> Any:
    """Makes a batch of samples: tensors, arrays and numbers are stacked along a new dimension.

    Mappings, named tuples and sequences are collated item by item (a tuple gives a list); strings
    and bytes stay lists. For other classes add a function to `default_collate_fn_map`.

    >>> default_collate([(weft.tensor([1, 2]), 0), (weft.tensor([3, 4]), 1)])
    [tensor([[1, 2],
            [3, 4]]), tensor([0, 1])]
    >>> default_collate([{"name": "a", "x": 1.5}, {"name": "b", "x": 2.5}])
    {'name': ['a', 'b'], 'x': tensor([1.5000, 2.5000], dtype=torch.float64)}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)

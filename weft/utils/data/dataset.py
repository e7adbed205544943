"""Where samples come from: map-style datasets (by index) and iterable ones (a stream)."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, cast

import weft
from weft import _core

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """Samples that are found by their index: derive from it and write `__getitem__`.

    Most samplers also want `__len__`. A dataset that can fetch many samples at once faster than
    one by one may define `__getitems__(indices)`, which returns the list of them.

    >>> class Squares(Dataset):
    ...     def __getitem__(self, index):
    ...         return index * index
    ...     def __len__(self):
    ...         return 100
    >>> Squares()[7]
    49
    """

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co], Iterable[_T_co]):
    """Samples that come as a stream: derive from it and write `__iter__`.

    Every worker iterates over a copy of its own, so `__iter__` should ask `get_worker_info()` which
    part of the stream it is to produce. A dataset (or what its `__iter__` returns) with
    `state_dict()` and `load_state_dict(state)` is asked for its position by
    `DataLoader.state_dict()`: it should count a sample before it yields it. Any other is brought
    there by skipping.
    """

    def __add__(self, other: Dataset[Any]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[_core.Tensor, ...]]):
    """Sample `i` is the tuple of the rows `i` of the given tensors.

    >>> data = TensorDataset(weft.arange(6).view(3, 2), weft.tensor([10, 20, 30]))
    >>> data[1]
    (tensor([2, 3]), tensor(20))
    """

    tensors: tuple[_core.Tensor, ...]

    def __init__(self, *tensors: _core.Tensor) -> None:
        rows = [tensor.size(0) for tensor in tensors]
        if any(count != rows[0] for count in rows):
            raise AssertionError(
                f"Size mismatch between tensors: their first dimensions are {rows}, "
                "but all must be equal"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[_core.Tensor, ...]:
        return tuple([tensor[index] for tensor in self.tensors])

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[Any]):
    """Several datasets side by side: a sample is the tuple (or dict) of a sample of each.

    >>> StackDataset("abc", [1, 2, 3])[1]
    ('b', 2)
    >>> StackDataset(letter="abc", number=[1, 2, 3])[1]
    {'letter': 'b', 'number': 2}
    """

    datasets: Any

    def __init__(self, *args: Dataset[Any], **kwargs: Dataset[Any]) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like "
                "input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = kwargs or args
        lengths = [len(cast(Any, dataset)) for dataset in args or kwargs.values()]
        if any(length != lengths[0] for length in lengths):
            raise ValueError(f"Size mismatch between datasets: their lengths are {lengths}")
        self._length: int = lengths[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple([dataset[index] for dataset in self.datasets])

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        if isinstance(self.datasets, dict):
            columns = [_getitems(dataset, indices) for dataset in self.datasets.values()]
            return [
                dict(zip(self.datasets, row, strict=True)) for row in zip(*columns, strict=True)
            ]
        return list(zip(*[_getitems(dataset, indices) for dataset in self.datasets], strict=True))

    def __len__(self) -> int:
        return self._length


def _getitems(dataset: Any, indices: list[Any]) -> list[Any]:
    getitems = getattr(dataset, "__getitems__", None)
    if not callable(getitems):
        return [dataset[index] for index in indices]
    items: list[Any] = getitems(indices)
    if len(items) != len(indices):
        raise ValueError(
            f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)}"
        )
    return items


class ConcatDataset(Dataset[_T_co]):
    """Several map-style datasets, one after the other."""

    datasets: list[Dataset[_T_co]]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Where each dataset ends."""
        return list(itertools.accumulate(map(len, sequence)))

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @property
    def cummulative_sizes(self) -> list[int]:
        """The old spelling of `cumulative_sizes`."""
        warnings.warn(
            "`cummulative_sizes` attribute is renamed to `cumulative_sizes`",
            FutureWarning,
            stacklevel=2,
        )
        return self.cumulative_sizes

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> _T_co:
        if idx < 0:
            if -idx > len(self):
                raise ValueError(
                    "absolute value of index should not exceed dataset length: "
                    f"got index {idx} and length {len(self)}"
                )
            idx += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        return self.datasets[which][idx - self.cumulative_sizes[which - 1] if which else idx]


class ChainDataset(IterableDataset[Any]):
    """Several iterable datasets, one after the other."""

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def _streams(self) -> Iterator[IterableDataset[Any]]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._streams():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(cast(Any, dataset)) for dataset in self._streams())


class Subset(Dataset[_T_co]):
    """The samples of a dataset at the given indices."""

    dataset: Dataset[_T_co]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[_T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        kind = type(self)
        if kind.__getitem__ is not Subset.__getitem__ and kind.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{kind.__name__} overrides __getitem__ but not __getitems__, which is what "
                "DataLoader calls. Define it too, for example:\n\n"
                "def __getitems__(self, indices):\n"
                "    return [self.__getitem__(idx) for idx in indices]"
            )

    def __getitem__(self, idx: Any) -> _T_co:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[_T_co]:
        chosen = [self.indices[index] for index in indices]
        getitems = getattr(self.dataset, "__getitems__", None)
        if callable(getitems):
            return cast(list[_T_co], getitems(chosen))
        return [self.dataset[index] for index in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[_T],
    lengths: Sequence[int | float],
    generator: _core.Generator | None = _core.default_generator,
) -> list[Subset[_T]]:
    """Shares a dataset out at random into disjoint subsets of the given lengths or fractions.

    What fractions leave over by rounding goes one by one to the first subsets.

    >>> parts = random_split(range(11), [0.8, 0.2], generator=weft.Generator().manual_seed(42))
    >>> [len(part) for part in parts]
    [9, 2]
    """
    total = len(cast(Any, dataset))
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for position, fraction in enumerate(lengths):
            if fraction < 0 or fraction > 1:
                raise ValueError(
                    f"Fraction at index {position} is not between 0 and 1: got {fraction}"
                )
        sizes = [math.floor(total * fraction) for fraction in lengths]
        for extra in range(total - sum(sizes)):
            sizes[extra % len(sizes)] += 1
        for position, size in enumerate(sizes):
            if size == 0:
                warnings.warn(
                    f"Length of split at index {position} is 0. "
                    "This might result in an empty dataset.",
                    stacklevel=2,
                )
        lengths = sizes
    if sum(lengths) != total:
        raise ValueError(
            "Sum of input lengths does not equal the length of the input dataset! "
            f"Got lengths {list(lengths)}, which sum to {sum(lengths)}, for {total} samples"
        )
    shuffled = weft.randperm(total, generator=generator).tolist()
    ends = itertools.accumulate(cast(Sequence[int], lengths))
    return [
        Subset(dataset, shuffled[end - length : end])
        for end, length in zip(ends, cast(Sequence[int], lengths), strict=True)
    ]


def fetch_collated(dataset: Any) -> Callable[[Any], Any] | None:
    """How to fetch a batch as `default_collate` would make it without making the samples.

    None where samples may be more than rows of tensors: then they must be fetched one by one.
    """
    kind = type(dataset)
    if isinstance(dataset, TensorDataset):
        if kind.__getitem__ is not TensorDataset.__getitem__ or hasattr(kind, "__getitems__"):
            return None
        tensors = dataset.tensors
        return lambda index: [tensor[index] for tensor in tensors]
    if isinstance(dataset, Subset):
        if (
            kind.__getitem__ is not Subset.__getitem__
            or kind.__getitems__ is not Subset.__getitems__
        ):
            return None
        inner = fetch_collated(dataset.dataset)
        if inner is None:
            return None
        chosen = weft.as_tensor(dataset.indices)
        return None if chosen.dtype is not weft.int64 else lambda index: inner(chosen[index])
    return None

"""In which order samples are taken."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import weft
from weft import _core

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

_T_co = TypeVar("_T_co", covariant=True)


def draw_seed(generator: _core.Generator | None = None) -> int:
    """A seed, drawn from `generator` (or from the default one)."""
    number = weft.empty((), dtype=weft.int64).random_(generator=generator)
    return int(number.item())


def _positive_integer(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


class Sampler(Generic[_T_co]):
    """What a `DataLoader` takes its indices from: derive from it and write `__iter__`.

    A sampler with `state_dict()` and `load_state_dict(state)` is asked for its position by
    `DataLoader.state_dict()`: it should count an index before it yields it, and go on from the
    loaded position at the next `iter()`. Any other is brought to the position by skipping.
    """

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError(f"{type(self).__name__} should implement __iter__")


class SequentialSampler(Sampler[int]):
    """All indices of `data_source`, in their order."""

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices of `data_source` in random order; with `replacement` any of them any time.

    `num_samples` says how many are drawn (default: as many as there are). Without a `generator`
    each epoch's order comes from one seed that is drawn from the default generator.
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: _core.Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        _positive_integer("num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many indices an epoch has."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        generator = self.generator
        if generator is None:
            generator = weft.Generator().manual_seed(draw_seed())
        if self.replacement:
            return self._with_replacement(generator)
        if self.num_samples == len(self.data_source):
            return iter(weft.randperm(self.num_samples, generator=generator).tolist())
        return self._permutations(generator)

    def _with_replacement(self, generator: _core.Generator) -> Iterator[int]:
        end, left = len(self.data_source), self.num_samples
        while left > 0:  # in pieces: an epoch may be much longer than the data
            piece = min(left, 1024)
            yield from weft.randint(0, end, (piece,), generator=generator).tolist()
            left -= piece

    def _permutations(self, generator: _core.Generator) -> Iterator[int]:
        end, left = len(self.data_source), self.num_samples
        while left > 0:
            yield from weft.randperm(end, generator=generator)[:left].tolist()
            left -= end

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order, each once."""

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: _core.Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        order = weft.randperm(len(self.indices), generator=self.generator).tolist()
        return iter([self.indices[position] for position in order])

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices from `0` to `len(weights) - 1`, drawn with the given weights (of any sum).

    >>> list(WeightedRandomSampler([0.0, 1.0, 0.0], 4))
    [1, 1, 1, 1]
    """

    weights: _core.Tensor
    num_samples: int
    replacement: bool

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: _core.Generator | None = None,
    ) -> None:
        _positive_integer("num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        as_tensor = weft.as_tensor(weights, dtype=weft.float64)
        if as_tensor.dim() != 1:
            raise ValueError(
                "weights should be a 1d sequence but given weights have shape "
                f"{tuple(as_tensor.shape)}"
            )
        self.weights = as_tensor
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = weft.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices of another sampler; the last may be shorter, or dropped.

    >>> list(BatchSampler(SequentialSampler(range(5)), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool
    ) -> None:
        _positive_integer("batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        size = self.batch_size
        least = size if self.drop_last else 1
        while len(batch := list(itertools.islice(indices, size))) >= least:
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

"""`DataLoader`: samples of a dataset, in batches, fetched ahead by workers if wanted."""

from __future__ import annotations

import math
import multiprocessing
import multiprocessing.context
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar, cast

from weft import _core

from ._utils import position as positions
from ._utils.collate import default_collate, default_convert
from ._utils.iterators import (
    _BaseDataLoaderIter,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
    usable_processors,
)
from ._utils.worker import get_worker_info
from .dataset import Dataset, IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_T_co = TypeVar("_T_co", covariant=True)

_FIXED = frozenset(
    ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
)
_METHODS = ("multiprocessing", "thread")


class _DatasetKind:
    Map = 0
    Iterable = 1


class _InfiniteConstantSampler(Sampler[None]):
    """Stands where an iterable dataset has no sampler."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


def _check_of_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    """A stream has one order: options that would choose another are refused."""
    given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                f"{name}={value}"
            )


class DataLoader(Generic[_T_co]):
    """Iterates over a dataset in batches.

    >>> data = TensorDataset(weft.arange(10.0).view(5, 2), weft.tensor([0, 1, 0, 1, 1]))
    >>> for inputs, targets in DataLoader(data, batch_size=2):
    ...     print(inputs.tolist(), targets.tolist())
    [[0.0, 1.0], [2.0, 3.0]] [0, 1]
    [[4.0, 5.0], [6.0, 7.0]] [0, 1]
    [[8.0, 9.0]] [1]

    With `num_workers` processes, or threads, samples are fetched ahead, `prefetch_factor` batches
    per worker. Which of the two is the choice of `worker_method`:

    * `"multiprocessing"` (the default, as in PyTorch): for datasets that compute in Python. The
      workers are forked (or started afresh, as `multiprocessing_context` says).
    * `"thread"`: for datasets that wait for files or a network, or compute where the interpreter
      lock is free. Threads start at once, have shallow copies of the dataset, and nothing has to
      travel. Random numbers that are to be reproducible come from `get_worker_info().rng`.

    `batch_size=None` gives single samples; `sampler` and `batch_sampler` take other orders;
    `collate_fn` makes batches of lists of samples. A `timeout` (seconds) limits the wait for a
    batch. `persistent_workers` stay for the next epoch. With `in_order=False` batches come as soon
    as they are ready.

    `state_dict()` says, at any time, which sample comes next:

    >>> loader = DataLoader(range(10), batch_size=2, shuffle=True)
    >>> batches = iter(loader)
    >>> first = next(batches)
    >>> state = loader.state_dict()  # for the checkpoint
    >>> another = DataLoader(range(10), batch_size=2, shuffle=True)  # in another process
    >>> another.load_state_dict(state)
    >>> [batch.tolist() for batch in another] == [batch.tolist() for batch in batches]
    True
    """

    dataset: Dataset[_T_co]
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Any
    batch_sampler: Any
    pin_memory_device: str
    prefetch_factor: int | None
    worker_method: str
    _iterator: _MultiProcessingDataLoaderIter | None
    _initialized = False

    def __init__(
        self,
        dataset: Dataset[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: _core.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        worker_method: str = "multiprocessing",
    ) -> None:
        self._check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if worker_method not in _METHODS:
            raise ValueError(
                f"worker_method option should be one of {_METHODS}, but got "
                f"worker_method={worker_method!r}"
            )
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.worker_method = worker_method
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.generator = generator
        self.persistent_workers = persistent_workers

        self._iterates = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if self._iterates else _DatasetKind.Map
        if self._iterates:
            _check_of_iterable(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, "
                    "sampler, and drop_last"
                )
            batch_size = None
            drop_last = False
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        if sampler is None:
            sized = cast(Any, dataset)
            if self._iterates:
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(sized, generator=generator)
            else:
                sampler = SequentialSampler(sized)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(cast(Any, sampler), batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn

        self._order = positions.Order(self._index_sampler, self._iterates)
        self._IterableDataset_len_called: int | None = None
        self._iterator = None
        self._position: positions.Position | None = None
        self._loaded: dict[str, Any] | None = None
        self._initialized = True
        self.check_worker_number_rationality()

    @staticmethod
    def _check_workers(
        num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
    ) -> None:
        if num_workers < 0:
            raise ValueError(
                "num_workers option should be non-negative; use num_workers=0 to disable "
                f"multiprocessing. Got num_workers={num_workers}"
            )
        if timeout < 0:
            raise ValueError(f"timeout option should be non-negative, but got timeout={timeout}")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing. "
                "Let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to "
                "None."
            )
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError(
                "prefetch_factor option should be non-negative, but got "
                f"prefetch_factor={prefetch_factor}"
            )
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")

    @property
    def multiprocessing_context(self) -> Any:
        """How worker processes are started; None for the system's default."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if self.num_workers == 0 or self.worker_method != "multiprocessing":
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading "
                    f"(num_workers > 0), but got num_workers={self.num_workers} and "
                    f"worker_method={self.worker_method!r}"
                )
            if isinstance(context, str):
                methods = multiprocessing.get_all_start_methods()
                if context not in methods:
                    raise ValueError(
                        "multiprocessing_context option should specify a valid start method in "
                        f"{methods!r}, but got multiprocessing_context={context!r}"
                    )
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError(
                    "multiprocessing_context option should be a valid context object or a string "
                    f"specifying the start method, but got multiprocessing_context={context}"
                )
        self._context = context

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in _FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def _get_iterator(self, state: dict[str, Any] | None = None) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self, state)
        return _MultiProcessingDataLoaderIter(self, state)

    def __iter__(self) -> _BaseDataLoaderIter:
        if self.pin_memory:
            self._warn_about_pinning()
        state = self._loaded
        iterator: _BaseDataLoaderIter
        running = self._iterator
        if running is not None and state is None and running._forgotten.alive:
            running._reset(self)
            iterator = running
        else:
            iterator = self._get_iterator(state)
            if self.persistent_workers and isinstance(iterator, _MultiProcessingDataLoaderIter):
                self._iterator = iterator
        self._position = iterator._position
        self._loaded = None
        return iterator

    def _warn_about_pinning(self) -> None:
        if self.pin_memory_device:
            warnings.warn(
                "pin_memory_device is deprecated, the current accelerator will be used as the "
                f"device, ignore pin_memory_device='{self.pin_memory_device}'.",
                stacklevel=3,
            )
        warnings.warn(
            "'pin_memory' argument is set as true but no accelerator is found, then device pinned "
            "memory won't be used.",
            stacklevel=3,
        )

    def __len__(self) -> int:
        """How many batches an epoch has; of an iterable dataset, what its own length promises."""
        if not self._iterates:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(cast(Any, self.dataset))
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else math.ceil(length / self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warns where there are more worker processes than processors."""
        if not self.num_workers or self.worker_method == "thread":
            return
        limit = usable_processors()
        if limit is None or self.num_workers > limit:
            suggested = (
                "DataLoader is not able to compute a suggested max number of worker in current "
                "system."
                if limit is None
                else f"Our suggested max number of worker in current system is {limit}, which is "
                "smaller than what this DataLoader is going to create."
            )
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. "
                f"{suggested} Please be aware that excessive worker creation might get DataLoader "
                "running slow or even freeze, lower the worker number to avoid potential "
                "slowness/freeze if necessary.",
                stacklevel=3,
            )

    def state_dict(self) -> dict[str, Any]:
        """The position: after the last batch that was given to the loop (the one begun last).

        It is made of tensors, numbers, and what the `state_dict()` of samplers and datasets return
        that have one. Batches that workers have fetched ahead do not count. After an epoch's last
        batch, but before the loop has ended, the rest of the epoch is empty; after its end the
        position is the beginning of the next. Random numbers that samples draw in the loop's own
        process (`num_workers=0`) are the program's: save `weft.get_rng_state()`, too.
        """
        if self._loaded is not None:
            return self._loaded
        if self._position is None:
            return positions.unstarted(self)
        return self._position.state_dict(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Has the next iteration go on from where `state_dict()` was taken.

        The loader must be made with the same arguments over the same data. The number of workers
        may differ, unless the dataset is an iterable one; but then workers' random numbers do, too.
        """
        positions.check(self, state_dict)
        if self._iterator is not None:
            self._iterator._shutdown_workers()
            self._iterator = None
        self._loaded = state_dict

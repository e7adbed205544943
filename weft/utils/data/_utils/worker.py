"""What a worker does, whether it is a process or a thread: fetch, and say where it stands."""

from __future__ import annotations

import copy
import pickle
import random
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import weft

from ..dataset import Dataset
from . import random_state
from .fetch import Fetch, IterableFetcher, map_fetcher

# Kinds of answers.
DATA, FAILURE, END = range(3)

PATIENCE = 5.0  # seconds that workers may go on with what they are doing when nobody needs it


class _RNG:
    """Random generators of one worker thread's own, each made when it is first asked for."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._made: dict[str, Any] = {}

    def _get(self, name: str, make: Callable[[int], Any]) -> Any:
        generator = self._made.get(name)
        if generator is None:
            generator = self._made[name] = make(self._seed)
        return generator

    @property
    def random_generator(self) -> random.Random:
        """Python's."""
        generator: random.Random = self._get("python", random.Random)
        return generator

    @property
    def torch_generator(self) -> weft.Generator:
        """Weft's: for the `generator` argument of its random operations."""
        generator: weft.Generator = self._get("weft", lambda s: weft.Generator().manual_seed(s))
        return generator

    @property
    def numpy_generator(self) -> Any:
        """Numpy's."""
        import numpy

        return self._get("numpy", numpy.random.default_rng)

    def state(self) -> dict[str, Any]:
        """The states of those that were asked for, as tensors and numbers."""
        states: dict[str, Any] = {}
        for name, generator in self._made.items():
            if name == "python":
                states[name] = random_state.python_to_plain(generator.getstate())
            elif name == "weft":
                states[name] = generator.get_state()
            else:
                states[name] = generator.bit_generator.state
        return states

    def load_state(self, states: dict[str, Any]) -> None:
        """Puts the generators into states that `state()` gave."""
        for name, state in states.items():
            if name == "python":
                self.random_generator.setstate(random_state.python_from_plain(state))
            elif name == "weft":
                self.torch_generator.set_state(state)
            else:
                self.numpy_generator.bit_generator.state = state


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What `get_worker_info()` tells a worker about itself.

    `dataset` is the worker's copy: what `worker_init_fn` sets on it, only this worker sees. That of
    a thread is a shallow copy, which shares what the attributes refer to. A thread has no random
    state of its own either, hence `rng`: generators that only this worker draws from.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: _RNG | None = None
    worker_method: str | None = "multiprocessing"


_process_info: WorkerInfo | None = None
_of_thread = threading.local()


def get_worker_info() -> WorkerInfo | None:
    """Which worker of a `DataLoader` this is; None outside of workers.

    >>> class Numbers(IterableDataset):
    ...     def __iter__(self):
    ...         info = get_worker_info()
    ...         if info is None:
    ...             return iter(range(6))
    ...         return iter(range(info.id, 6, info.num_workers))
    >>> loader = DataLoader(Numbers(), batch_size=3, num_workers=2, worker_method="thread")
    >>> [batch.tolist() for batch in loader]
    [[0, 2, 4], [1, 3, 5]]
    """
    return getattr(_of_thread, "info", None) or _process_info


@dataclass
class Job:
    """What all workers of one iterator have in common."""

    dataset: Any
    iterable: bool
    auto_collation: bool
    batch_size: int | None
    drop_last: bool
    collate_fn: Callable[[Any], Any]
    base_seed: int
    worker_init_fn: Callable[[int], Any] | None
    num_workers: int
    threads: bool


@dataclass
class Start:
    """Where one worker begins: at the epoch's beginning, or where another left off."""

    delivered: int = 0
    epoch_random: Any = None  # its random state when the epoch began; None: as seeded
    random: Any = None  # and now
    dataset: Any = None  # the state of its stateful dataset


class Worker:
    """Answers tasks. An answer is (kind, data, random state, state of the dataset).

    The random state is None while it is what the last answer said, because it is not small.
    """

    def __init__(self, job: Job, number: int, start: Start) -> None:
        self._job = job
        self._number = number
        self._failed: Failure | None = None
        # A process that is told to exit does, and is reported. A thread would just be missed.
        self._caught = BaseException if job.threads else Exception
        self._numpy_seeded = True
        seed = job.base_seed + number
        rng = _RNG(seed) if job.threads else None
        method = "thread" if job.threads else "multiprocessing"
        self._dataset = job.dataset
        if job.threads and isinstance(job.dataset, Dataset):
            self._dataset = copy.copy(job.dataset)
        info = WorkerInfo(number, job.num_workers, seed, self._dataset, rng, method)
        if job.threads:
            _of_thread.info = info
        else:
            global _process_info
            _process_info = info
            weft.set_num_threads(1)
            random_state.seed_all(seed, job.base_seed, number)
            self._numpy_seeded = random_state.seed_numpy(job.base_seed, number)
        self._rng = rng
        try:
            if job.worker_init_fn is not None:
                job.worker_init_fn(number)
            if start.epoch_random is not None:
                self._restore(start.epoch_random)
            self._fetch = self._fetcher(start)
            if start.random is not None:
                self._restore(start.random)
        except self._caught as error:
            self._failed = Failure(error, self._where())
        self._said = start.random or start.epoch_random or self._snapshot()

    def _fetcher(self, start: Start) -> Fetch:
        job = self._job
        if not job.iterable:
            return map_fetcher(self._dataset, job.auto_collation, job.collate_fn)
        stream = IterableFetcher(
            self._dataset, job.batch_size, job.drop_last, job.collate_fn, start.dataset
        )
        if start.dataset is None:
            stream.skip(start.delivered)
        return stream

    def _where(self) -> str:
        kind = "thread" if self._job.threads else "process"
        return f"in DataLoader worker {kind} {self._number}"

    def _snapshot(self) -> Any:
        return random_state.snapshot() if self._rng is None else self._rng.state()

    def _restore(self, states: Any) -> None:
        if self._rng is None:
            random_state.restore(states)
        else:
            self._rng.load_state(states)

    def new_epoch(self) -> None:
        """Begins again: what persistent workers do."""
        try:
            self._fetch = self._fetcher(Start())
            self._failed = None
        except self._caught as error:
            self._failed = Failure(error, self._where())

    def answer(self, index: Any) -> tuple[int, Any, Any, Any]:
        """Fetches what the (batch) sampler asked for."""
        kind: int = DATA
        data: Any
        if self._failed is not None:
            kind, data = FAILURE, self._failed
        else:
            try:
                data = self._fetch(index)
            except StopIteration as error:
                if self._job.iterable:
                    kind, data = END, None
                else:
                    kind, data = FAILURE, Failure(error, self._where())
            except self._caught as error:
                kind, data = FAILURE, Failure(error, self._where())
        if not self._numpy_seeded:  # the first samples may have loaded it
            self._numpy_seeded = random_state.seed_numpy(self._job.base_seed, self._number)
        return kind, data, self._changed_random(), self._dataset_state()

    def _changed_random(self) -> Any:
        now = self._snapshot()
        if self._rng is not None:
            return now
        if random_state.equal(now, self._said):
            return None
        self._said = now
        return pickle.dumps(now, pickle.HIGHEST_PROTOCOL)

    def _dataset_state(self) -> Any:
        if self._failed is not None or not isinstance(self._fetch, IterableFetcher):
            return None
        if not self._fetch.has_state:
            return None
        # Pickled, because the state may be a part of the dataset that goes on changing; and
        # nobody needs to unpickle what nobody asks for.
        return pickle.dumps(self._fetch.state(), pickle.HIGHEST_PROTOCOL)


class _Unquoted(str):
    """A message for KeyError, which shows the repr of what it is given."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Failure:
    """An exception on its way from a worker to the loop."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.kind = type(error)
        self.where = where
        self.text = "".join(traceback.format_exception(error))
        # A thread's exception can be raised as it is. Through a pipe goes only the rest.
        self.error: BaseException | None = error

    def __getstate__(self) -> dict[str, Any]:
        return {"kind": _importable(self.kind), "where": self.where, "text": self.text}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, error=None)

    def reraise(self) -> None:
        """Raises an exception of the same class, with the worker's traceback."""
        if self.error is not None:
            error, self.error = self.error, None
            error.add_note(f"Raised {self.where}.")
            try:
                raise error
            finally:
                del error  # its traceback holds this frame
        message = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        if self.kind is KeyError:
            message = _Unquoted(message)
        try:
            exception = self.kind(message)
        except Exception:  # a class that wants other arguments
            raise RuntimeError(message) from None
        raise exception


def _importable(kind: type[BaseException]) -> type[BaseException]:
    """The class itself, or the nearest one above it that other processes can find, too."""
    for candidate in kind.__mro__:
        module = sys.modules.get(candidate.__module__)
        if getattr(module, candidate.__qualname__, None) is candidate:
            return cast(type[BaseException], candidate)
    return RuntimeError

"""What `iter(loader)` returns: one iterator that fetches by itself, one that has workers do it."""

from __future__ import annotations

import copy
import itertools
import os
import signal
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any, NoReturn

from ..sampler import draw_seed
from .fetch import Fetch, IterableFetcher, map_fetcher
from .position import (
    EpochStart,
    Position,
    Replay,
    WorkerPosition,
    load_generators,
    skip,
    workers_from_plain,
)
from .processes import Processes, ctrl_c_waits
from .threads import Threads
from .worker import END, FAILURE, PATIENCE, Job

_IMPATIENCE = 0.2  # seconds that workers get to end when the loop has failed


class _BaseDataLoaderIter:
    """One epoch of a DataLoader."""

    _position: Position
    _indices: Iterator[Any]
    _promised: int | None

    # Not the loader: one that keeps its workers keeps its iterator, too.

    def __init__(self, loader: Any) -> None:
        self._dataset = loader.dataset
        self._index_sampler = loader._index_sampler
        self._num_workers: int = loader.num_workers

    def _begin(self, loader: Any, base_seed: int) -> None:
        """A new epoch."""
        sampler = loader._order.stateful
        self._position = Position(EpochStart(loader, base_seed), sampler=sampler)
        self._promised = promised_length(loader)
        if sampler is not None and loader.num_workers:
            self._position.sampler_state = copy.deepcopy(sampler.state_dict())
        self._indices = itertools.repeat(None) if loader._iterates else iter(self._index_sampler)

    def _go_on(self, loader: Any, state: dict[str, Any]) -> None:
        """The epoch that `state` was taken in."""
        sampler = loader._order.stateful
        self._promised = promised_length(loader)
        position = self._position = Position(
            state["start"],
            state["delivered"],
            dict.fromkeys(state["ahead"]),
            sampler=sampler,
            sampler_state=state.get("sampler"),
        )
        if loader._iterates:
            self._indices = itertools.repeat(None)
        elif sampler is not None and "sampler" in state:
            load_generators(loader, state["start"]["generators"])
            sampler.load_state_dict(state["sampler"])
            self._indices = iter(() if state["complete"] else self._index_sampler)
        else:
            with Replay(loader, state["start"]):
                self._indices = iter(self._index_sampler)
                skip(self._indices, position.delivered)

    def _load_between_epochs(self, loader: Any, state: dict[str, Any]) -> None:
        """What lasts from one epoch to the next."""
        load_generators(loader, state["generators"])
        sampler = loader._order.stateful
        if sampler is not None and "sampler" in state:
            sampler.load_state_dict(state["sampler"])

    def _warn_if_longer(self, batches: int) -> None:
        if self._promised is not None and batches > self._promised:
            text = (
                f"Length of IterableDataset {self._dataset} was reported to be {self._promised} "
                f"(when accessing len(dataloader)), but {batches} samples have been fetched. "
            )
            if self._num_workers:
                text += (
                    "Every worker iterates over a copy of the dataset: let its __iter__ ask "
                    "get_worker_info() for the part it is to produce."
                )
            warnings.warn(text, stacklevel=3)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> NoReturn:
        raise NotImplementedError(
            f"{type(self).__name__} cannot be pickled: keep DataLoader.state_dict() instead"
        )


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Fetches each batch when it is asked for."""

    def __init__(self, loader: Any, state: dict[str, Any] | None = None) -> None:
        super().__init__(loader)
        stream_state = None
        if state is not None:
            stream_state = state.get("dataset")
            if state["finished"]:
                self._load_between_epochs(loader, state)
        if state is None or state["finished"]:
            self._begin(loader, draw_seed(loader.generator))
            self._fetch: Fetch = self._fetcher(loader, stream_state)
        else:
            self._go_on(loader, state)
            if loader._iterates and stream_state is None:
                with Replay(loader, state["start"]):
                    stream = self._fetcher(loader, None)
                    stream.skip(state["delivered"])
                self._fetch = stream
            else:
                self._fetch = self._fetcher(loader, stream_state)

    def _fetcher(self, loader: Any, stream_state: Any) -> Any:
        if not loader._iterates:
            return map_fetcher(loader.dataset, loader._auto_collation, loader.collate_fn)
        stream = IterableFetcher(
            loader.dataset, loader.batch_size, loader.drop_last, loader.collate_fn, stream_state
        )
        self._position.stream = stream if stream.has_state else None
        return stream

    def __next__(self) -> Any:
        position = self._position
        try:
            data = self._fetch(next(self._indices))
        except StopIteration:
            position.finished = True
            raise
        except Exception:  # the loop may go on after it
            position.delivered += 1
            raise
        position.delivered += 1
        if self._promised is not None:
            self._warn_if_longer(position.delivered)
        return data


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Has workers fetch ahead, and delivers what they fetch: in order, or as it comes."""

    def __init__(self, loader: Any, state: dict[str, Any] | None = None) -> None:
        super().__init__(loader)
        self._in_order: bool = loader.in_order
        self._ahead: int = max(1, loader.prefetch_factor)
        self._iterates: bool = loader._iterates
        self._persistent: bool = loader.persistent_workers
        workers = [WorkerPosition() for _ in range(self._num_workers)]
        last = [] if state is None else workers_from_plain(loader, state)
        goes_on = state is not None and not state["finished"]
        if state is not None and not goes_on:
            self._load_between_epochs(loader, state)
        if state is not None and (goes_on or (last and self._persistent)):
            self._base_seed: int = state["start"]["base_seed"]
        else:
            self._base_seed = draw_seed(loader.generator)
        if state is not None and goes_on:
            self._go_on(loader, state)
            workers = last or workers
        else:
            self._begin(loader, self._base_seed)
            if self._persistent:
                workers = _rested(last) or workers
        self._position.workers = workers
        with ctrl_c_waits():
            self._crew: Threads | Processes = self._hire(loader)
            # Runs when the iterator is collected, or at the interpreter's end.
            self._forgotten = weakref.finalize(self, _stop_forgotten, self._crew)
        self._prime(state if goes_on and last else None)

    def _hire(self, loader: Any) -> Threads | Processes:
        threads = loader.worker_method == "thread"
        job = Job(
            loader.dataset,
            loader._iterates,
            loader._auto_collation,
            loader.batch_size,
            loader.drop_last,
            loader.collate_fn,
            self._base_seed,
            loader.worker_init_fn,
            loader.num_workers,
            threads,
        )
        starts = [worker.start() for worker in self._position.workers]
        if threads:
            return Threads(job, starts, loader.timeout)
        context = loader.multiprocessing_context
        return Processes(job, starts, loader.timeout, context, self._ahead)

    def _prime(self, state: dict[str, Any] | None) -> None:
        """Gives the workers as much as they may fetch ahead."""
        # (number, state of the sampler) of each worker's tasks.
        self._tasks: list[deque[tuple[int, Any]]] = [deque() for _ in range(self._num_workers)]
        self._number = self._position.delivered
        if state is not None:
            for worker in state["order"]:  # who was to fetch these, fetches them again
                self._assign(worker)
            self._position.turn = state["turn"]
        for _ in range(self._num_workers * self._ahead - len(self._position.order)):
            if not self._assign():
                break

    def _assign(self, worker: int | None = None) -> bool:
        """Gives the next task to a worker, or to the one whose turn it is."""
        position = self._position
        if worker is None:
            worker = self._whose_turn()
            if worker is None:
                return False
        try:
            index = next(self._indices)
            while self._number in position.ahead:
                self._number += 1
                index = next(self._indices)
        except StopIteration:
            return False
        sampler_state = None
        if position.sampler is not None:
            sampler_state = copy.deepcopy(position.sampler.state_dict())
        self._tasks[worker].append((self._number, sampler_state))
        self._number += 1
        position.order.append(worker)
        self._crew.post(worker, index)
        return True

    def _whose_turn(self) -> int | None:
        position = self._position
        count = len(position.workers)
        for step in range(count):
            worker = (position.turn + step) % count
            if position.workers[worker].active and (
                self._in_order or len(self._tasks[worker]) < self._ahead
            ):
                position.turn = (worker + 1) % count
                return worker
        return None

    def __next__(self) -> Any:
        position = self._position
        while self._forgotten.alive:
            if not position.order:
                position.finished = True
                if not self._persistent:
                    self._shutdown_workers()
                break
            kind, data = self._receive()
            if kind == END:
                self._assign()
                continue
            self._assign()
            if kind == FAILURE:
                data.reraise()
            if self._promised is not None:
                self._warn_if_longer(position.delivered)
            return data
        raise StopIteration

    def _receive(self) -> tuple[int, Any]:
        """Waits for the next answer and notes what it says about the position."""
        position = self._position
        try:
            if self._in_order:
                number = position.order[0]
                answer = self._crew.receive(number)
                position.order.popleft()
            else:
                number, answer = self._crew.receive_any()
                position.order.remove(number)
        except BaseException:  # a worker has died, the time is over, Ctrl-C
            self._shutdown_workers(_IMPATIENCE)
            raise
        kind, data, random, dataset = answer
        worker = position.workers[number]
        if random is not None:
            worker.random = random
        if dataset is not None:
            worker.dataset = dataset
        task, sampler_state = self._tasks[number].popleft()
        if kind == END:
            worker.active = False
        else:
            worker.delivered += 1
            # Which of a stream's batches comes first is nobody's plan.
            position.deliver(position.delivered if self._iterates else task, sampler_state)
        return kind, data

    def _reset(self, loader: Any) -> None:
        """Begins another epoch with the same workers."""
        before = self._position
        while before.order:  # fetched for a loop that was left
            self._receive()
        self._begin(loader, self._base_seed)
        self._position.workers = _rested(before.workers)
        self._crew.new_epoch()
        self._prime(None)

    def _shutdown_workers(self, patience: float = PATIENCE) -> None:
        """Ends the workers now."""
        if self._forgotten.detach() is not None:
            self._crew.stop(patience)


def _stop_forgotten(crew: Threads | Processes) -> None:
    """Ends the workers of an iterator that is being collected."""
    try:
        crew.stop()
    except KeyboardInterrupt:
        # What is raised while something is collected is lost, and Ctrl-C must not be.
        again = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()


def _rested(workers: list[WorkerPosition]) -> list[WorkerPosition]:
    """The same workers, before a new epoch."""
    states = [worker.random or worker.epoch_random for worker in workers]
    return [WorkerPosition(epoch_random=known, random=known) for known in states]


def promised_length(loader: Any) -> int | None:
    """The length that an iterable dataset told when it was asked."""
    length: int | None = loader._IterableDataset_len_called if loader._iterates else None
    return length


def usable_processors() -> int | None:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()

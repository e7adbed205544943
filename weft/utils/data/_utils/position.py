"""Where a loader stands in its epoch, and how it gets there again.

Note [The position of a loader]
What counts is what the loop has been given, not what workers have fetched ahead. A position is
therefore made of things that are known at the moment of delivery:

* The order of samples: the random states as they were when the epoch began, and how many batches
  have been delivered. To go on, the sampler begins again with those states and the delivered
  batches are drawn and dropped; only indices, no data. The random numbers of the rest of the
  program are put back afterwards. A sampler with a `state_dict` of its own is asked instead, after
  each batch that is drawn, because others are drawn before this one is delivered.
* Streams: how many batches each worker has delivered of its own stream (which then skips them), or
  the `state_dict` of its dataset, which travels with each batch.
* The random numbers of each worker, which travel with a batch if they have changed.
* Which worker's turn it is: it decides which random numbers the next sample sees, and which stream
  comes next.
"""

from __future__ import annotations

import copy
import math
import pickle
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import weft

from ..distributed import DistributedSampler
from ..sampler import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from . import random_state
from .fetch import is_stateful
from .worker import Start

_VERSION = 1

# These draw from weft's generators only.
_OWN_SAMPLERS = frozenset(
    (
        BatchSampler,
        DistributedSampler,
        RandomSampler,
        SequentialSampler,
        SubsetRandomSampler,
        WeightedRandomSampler,
    )
)


class EpochStart:
    """The random states that decide the order of an epoch, taken when it begins."""

    def __init__(self, loader: Any, base_seed: int) -> None:
        self.base_seed = base_seed
        self.generators = _generator_states(loader)
        self.default = weft.get_rng_state()
        # Taking these costs more than a whole small batch, and most samplers do not draw from them.
        order = loader._order
        self.all = random_state.snapshot() if order.draws_outside else None
        epochs = order.of_epochs
        self.sampler_epoch = None if epochs is None else getattr(epochs, "epoch", None)

    def to_plain(self) -> dict[str, Any]:
        """As tensors and numbers."""
        plain: dict[str, Any] = {
            "base_seed": self.base_seed,
            "generators": self.generators,
            "default": self.default,
        }
        if self.all is not None:
            plain["random"] = random_state.to_plain(self.all)
        if isinstance(self.sampler_epoch, int):
            plain["sampler_epoch"] = self.sampler_epoch
        return plain


class Replay:
    """Inside, random numbers are those of an epoch's start; afterwards they are as before."""

    def __init__(self, loader: Any, start: dict[str, Any]) -> None:
        self._loader = loader
        self._start = start

    def __enter__(self) -> None:
        self._before = random_state.snapshot()
        start = self._start
        load_generators(self._loader, start["generators"])
        if "random" in start:
            random_state.restore(random_state.from_plain(start["random"]))
        weft.set_rng_state(start["default"])
        sampler = self._loader._order.of_epochs
        if sampler is not None and "sampler_epoch" in start:
            sampler.set_epoch(start["sampler_epoch"])

    def __exit__(self, *exception: object) -> None:
        random_state.restore(self._before)


class Order:
    """Where the order of a loader's samples comes from: the (batch) sampler and its own sampler."""

    def __init__(self, outer: Any, iterates: bool) -> None:
        inner = getattr(outer, "sampler", None)
        self.samplers = [outer] if inner is None else [outer, inner]
        # The one that keeps its own position; a BatchSampler's is that of its sampler.
        stateful = [] if iterates else filter(is_stateful, self.samplers)
        self.stateful: Any = next(iter(stateful), None)
        # The one whose order depends on the epoch that it is told.
        self.of_epochs: Any = next(
            (sampler for sampler in self.samplers if hasattr(sampler, "set_epoch")), None
        )
        # Whether random numbers may come from elsewhere than weft's generators.
        self.draws_outside = iterates or not _OWN_SAMPLERS.issuperset(map(type, self.samplers))


def generators_of(loader: Any) -> dict[str, Any]:
    """The generators, other than the default one, that the order of samples may come from."""
    found = {}
    names = ("loader", "sampler", "inner sampler")
    for name, owner in zip(names, (loader, *loader._order.samplers), strict=False):
        generator = getattr(owner, "generator", None)
        if isinstance(generator, weft.Generator) and generator is not weft.default_generator:
            found[name] = generator
    return found


def load_generators(loader: Any, states: dict[str, Any]) -> None:
    """Puts a loader's generators into the given states."""
    for name, generator in generators_of(loader).items():
        if name in states:
            generator.set_state(states[name])


@dataclass
class WorkerPosition:
    """Where one worker stands: after its last delivered batch."""

    active: bool = True
    delivered: int = 0
    epoch_random: Any = None
    random: Any = None
    dataset: Any = None

    def start(self) -> Start:
        """What a new worker needs to go on from here."""
        return Start(
            self.delivered, _loaded(self.epoch_random), _loaded(self.random), _loaded(self.dataset)
        )


def _loaded(pickled: Any) -> Any:
    return pickle.loads(pickled) if isinstance(pickled, bytes) else pickled


@dataclass
class Position:
    """How far one epoch of a loader has come."""

    start: Any  # EpochStart, or what its to_plain() gave
    delivered: int = 0  # so many batches, without a gap
    ahead: dict[int, Any] = field(default_factory=dict)  # after a gap: number to sampler's state
    finished: bool = False
    # The one of a loop without workers, which is where it is; that of workers is told with a batch.
    sampler: Any = None
    stream: Any = None
    sampler_state: Any = None
    workers: list[WorkerPosition] = field(default_factory=list)
    order: deque[int] = field(default_factory=deque)  # the workers whose answers come next
    turn: int = 0  # the worker that gets the next task

    def deliver(self, number: int, sampler_state: Any) -> None:
        """Notes that batch `number` has been given to the loop."""
        if number != self.delivered:
            self.ahead[number] = sampler_state
            return
        self.delivered += 1
        self.sampler_state = sampler_state
        while self.delivered in self.ahead:
            self.sampler_state = self.ahead.pop(self.delivered)
            self.delivered += 1

    def state_dict(self, loader: Any) -> dict[str, Any]:
        """All of this, as tensors, numbers and what the states of others are made of."""
        state: dict[str, Any] = _description(loader)
        state["finished"] = self.finished
        start = self.start
        state["start"] = start.to_plain() if isinstance(start, EpochStart) else start
        if self.finished:
            state["generators"] = _generator_states(loader)
        else:
            state["delivered"] = self.delivered
            state["ahead"] = sorted(self.ahead)
        if self.sampler is not None:
            live = self.finished or not self.workers
            state["sampler"] = self.sampler.state_dict() if live else self.sampler_state
            # A sampler at its end may already stand at its beginning again.
            state["complete"] = not self.finished and self.delivered >= _length(loader)
        if self.stream is not None:
            state["dataset"] = self.stream.state()
        if self.workers:
            state["workers"] = [_worker_to_plain(worker, loader) for worker in self.workers]
            state["order"] = list(self.order)
            state["turn"] = self.turn
        return copy.deepcopy(state)


def unstarted(loader: Any) -> dict[str, Any]:
    """The state of a loader that nobody has iterated over yet."""
    return {**_description(loader), "finished": True, "generators": _generator_states(loader)}


def _description(loader: Any) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "iterable": loader._iterates,
        "batch_size": loader.batch_size,
        "num_workers": loader.num_workers,
        "worker_method": loader.worker_method,
    }


def _length(loader: Any) -> float:
    try:
        return len(loader._index_sampler)
    except TypeError:
        return math.inf


def _generator_states(loader: Any) -> dict[str, Any]:
    return {name: generator.get_state() for name, generator in generators_of(loader).items()}


def _worker_to_plain(worker: WorkerPosition, loader: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {"active": worker.active, "delivered": worker.delivered}
    threads = loader.worker_method == "thread"
    for name in ("epoch_random", "random"):
        states = _loaded(getattr(worker, name))
        if states is not None:
            plain[name] = states if threads else random_state.to_plain(states)
    if worker.dataset is not None:
        plain["dataset"] = _loaded(worker.dataset)
    return plain


def check(loader: Any, state: Any) -> None:
    """Refuses a state that this loader cannot go on from."""
    if not isinstance(state, dict) or "finished" not in state:
        raise TypeError(
            "load_state_dict(): expected what DataLoader.state_dict() returned, got "
            f"{type(state).__name__}"
        )
    if state.get("version") != _VERSION:
        raise ValueError(
            f"load_state_dict(): the state has version {state.get('version')!r}, "
            f"this is version {_VERSION}"
        )
    now = _description(loader)
    # How many workers there are changes nothing in which samples come, unless each has a stream.
    fixed = ["iterable", "batch_size"]
    if state["iterable"] and not state["finished"]:
        fixed += ["num_workers", "worker_method"]
    for name in fixed:
        if state[name] != now[name]:
            raise ValueError(
                f"load_state_dict(): the state is of a DataLoader with {name}={state[name]!r}, "
                f"this one has {name}={now[name]!r}: make it with the same arguments"
            )


def workers_from_plain(loader: Any, state: dict[str, Any]) -> list[WorkerPosition]:
    """The workers of a state; none where this loader's cannot take their place."""
    if any(state[name] != getattr(loader, name) for name in ("num_workers", "worker_method")):
        return []
    threads = loader.worker_method == "thread"
    workers = []
    for plain in state.get("workers", ()):
        worker = WorkerPosition(plain["active"], plain["delivered"])
        for name in ("epoch_random", "random"):
            if name in plain:
                known = plain[name] if threads else random_state.from_plain(plain[name])
                setattr(worker, name, known)
        worker.dataset = plain.get("dataset")
        workers.append(worker)
    return workers


def skip(indices: Iterator[Any], batches: int) -> None:
    """Drops what has been delivered."""
    for drawn in range(batches):
        try:
            next(indices)
        except StopIteration:
            raise RuntimeError(
                f"DataLoader: the loaded state stands after batch {batches}, but the sampler ends "
                f"after {drawn}: is this the same dataset?"
            ) from None

"""How the data of one batch is fetched, by a worker or in the loop's own thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft import _core

from ..dataset import fetch_collated
from .collate import collate_tensor_fn, default_collate, default_collate_fn_map

Fetch = Callable[[Any], Any]


def map_fetcher(dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any]) -> Fetch:
    """A function from what the (batch) sampler yields to data."""
    if not auto_collation:
        return lambda index: collate_fn(dataset[index])
    getitems = getattr(dataset, "__getitems__", None)
    if getitems:
        one_by_one: Fetch = lambda batch: collate_fn(getitems(batch))  # noqa: E731
    else:
        one_by_one = lambda batch: collate_fn([dataset[index] for index in batch])  # noqa: E731
    whole = None
    if (
        collate_fn is default_collate
        and default_collate_fn_map.get(_core.Tensor) is collate_tensor_fn
    ):
        whole = fetch_collated(dataset)
    if whole is None:
        return one_by_one
    return _whole_batches(whole, one_by_one)


def _whole_batches(whole: Fetch, one_by_one: Fetch) -> Fetch:
    tensor, int64 = weft.tensor, weft.int64

    def fetch(batch: Any) -> Any:
        # A sampler may yield anything: a tensor, what is no integer, nothing at all.
        try:
            index = tensor(batch) if type(batch) is list else batch
            rows = index.dtype is int64 and index.ndim == 1
        except (AttributeError, TypeError, ValueError):
            rows = False
        return whole(index) if rows else one_by_one(batch)

    return fetch


class IterableFetcher:
    """Takes a stream's next samples. Raises StopIteration at its end."""

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None,
        drop_last: bool,
        collate_fn: Callable[[Any], Any],
        state: Any = None,
    ) -> None:
        """Begins the stream, or goes on in the `state` that `state()` gave."""
        self._ended: bool = state is not None and state["ended"]
        owner = dataset if is_stateful(dataset) else None
        if state is not None and owner is not None:
            owner.load_state_dict(state["stream"])
        self._stream: Any = iter(dataset)
        if owner is None and is_stateful(self._stream):
            owner = self._stream
            if state is not None:
                owner.load_state_dict(state["stream"])
        self._stateful: Any = owner
        self._batch_size = batch_size
        self._least = batch_size if drop_last and batch_size is not None else 1
        self._collate_fn = collate_fn

    @property
    def has_state(self) -> bool:
        """Whether the stream can say where it is; otherwise one must skip."""
        return self._stateful is not None

    def state(self) -> dict[str, Any]:
        """The state of the stream, and whether its end has been seen.

        The stream itself may already stand at its beginning again then.
        """
        return {"stream": self._stateful.state_dict(), "ended": self._ended}

    def __call__(self, _: Any = None) -> Any:
        if self._batch_size is None:
            return self._collate_fn(next(self._stream))
        if self._ended:
            raise StopIteration
        samples: list[Any] = []
        stream = self._stream
        # Not islice: it would call iter() again, which makes many a dataset begin again.
        try:
            for _ in range(self._batch_size):
                samples.append(next(stream))  # noqa: PERF401
        except StopIteration:
            self._ended = True
            if len(samples) < self._least:
                raise
        return self._collate_fn(samples)

    def skip(self, batches: int) -> None:
        """Goes on to where so many have been fetched, by fetching them.

        With their collating: it may draw the random numbers that the next samples depend on.
        Those that fail have failed before.
        """
        for _ in range(batches):
            try:
                self()
            except StopIteration:
                self._ended = True
                return
            except Exception:
                continue


def is_stateful(source: Any) -> bool:
    """Whether a sampler, dataset or iterator can say where it is, and be put there."""
    return hasattr(source, "state_dict") and hasattr(source, "load_state_dict")

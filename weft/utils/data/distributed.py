"""A sampler that gives each of several processes its share."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from typing import Any, TypeVar, cast

import weft

from .dataset import Dataset
from .sampler import Sampler

__all__ = ["DistributedSampler"]

_T_co = TypeVar("_T_co", covariant=True)


def _process_group() -> Any:
    """The module that knows how many processes there are, and which one this is."""
    try:
        group = importlib.import_module("weft.distributed")
    except ModuleNotFoundError:
        group = None
    if group is None or not group.is_available():
        raise RuntimeError(
            "Requires distributed package to be available: otherwise give num_replicas and rank"
        )
    return group


class DistributedSampler(Sampler[_T_co]):
    """Every `num_replicas`-th index, from `rank` on, of an order that all processes share.

    Indices are repeated until all shares are equally long; with `drop_last` the tail is left out
    instead. Call `set_epoch(epoch)` before each epoch: it is what changes the shuffled order.

    >>> list(DistributedSampler(range(5), num_replicas=2, rank=0, shuffle=False))
    [0, 2, 4]
    >>> list(DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None:
            num_replicas = cast(int, _process_group().get_world_size())
        if rank is None:
            rank = cast(int, _process_group().get_rank())
        if rank >= num_replicas or rank < 0:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        count = len(cast(Any, dataset))
        if drop_last and count % num_replicas != 0:
            self.num_samples = math.ceil((count - num_replicas) / num_replicas)
        else:
            self.num_samples = math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[_T_co]:
        count = len(cast(Any, self.dataset))
        if self.shuffle:
            generator = weft.Generator().manual_seed(self.seed + self.epoch)
            indices = weft.randperm(count, generator=generator).tolist()
        else:
            indices = list(range(count))
        if len(indices) < self.total_size:
            indices *= math.ceil(self.total_size / max(1, len(indices)))
        if len(indices) < self.total_size:
            raise AssertionError(
                f"Number of indices ({len(indices)}) does not match total_size ({self.total_size})"
            )
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """The epoch whose order the next iteration takes."""
        self.epoch = epoch

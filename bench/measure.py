"""Timing one workload: calibrated loops, least of many, the cost of looping subtracted."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat

from bench.case import Workload

clock = time.perf_counter_ns


@dataclass(frozen=True)
class Effort:
    """How long one case is measured in one round."""

    # One timed stretch. Short, so that on a busy machine some stretch runs undisturbed.
    stretch_ns: int
    budget_ns: int
    least_repeats: int = 5


FULL = Effort(stretch_ns=1_000_000, budget_ns=100_000_000)
QUICK = Effort(stretch_ns=1_000_000, budget_ns=30_000_000, least_repeats=3)


def pin_to_cpus(count: int) -> list[int]:
    """Keeps this process on `count` CPUs: a migration costs more than a small operation."""
    if not hasattr(os, "sched_setaffinity"):
        return []
    chosen = sorted(os.sched_getaffinity(0))[-count:]
    os.sched_setaffinity(0, chosen)
    return chosen


class Disturbance:
    """How much of this process's CPUs other processes take meanwhile."""

    def __init__(self, cpus: list[int]) -> None:
        self._cpus = cpus
        self._start = self._seconds()

    def share(self) -> float | None:
        """0 on a quiet machine; None where the system does not say."""
        if self._start is None or (now := self._seconds()) is None:
            return None
        wall, busy, own = (after - before for before, after in zip(self._start, now, strict=True))
        return max(busy - own, 0.0) / (wall * len(self._cpus)) if wall > 0 else None

    def _seconds(self) -> tuple[float, float, float] | None:
        """Wall time, time our CPUs were busy, time this process ran."""
        try:
            with open("/proc/stat") as lines:
                wanted = {f"cpu{cpu}" for cpu in self._cpus}
                rows = [line.split() for line in lines if line.split(" ", 1)[0] in wanted]
        except OSError:
            return None
        # user nice system idle iowait irq softirq steal
        ticks = sum(int(row[i]) for row in rows for i in (1, 2, 3, 6, 7, 8))
        return time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), time.process_time()


def empty_turn_ns(effort: Effort) -> float:
    """The cost of one turn of the loop that every workload uses, doing nothing."""

    def loop(n: int) -> None:
        for _ in repeat(None, n):
            pass

    turns = 100_000
    repeats = max(effort.least_repeats, effort.budget_ns // 2_000_000)
    return min(_elapsed(loop, turns) for _ in range(repeats)) / turns


def nanoseconds_per_operation(work: Workload, effort: Effort, empty_ns: float) -> float:
    """The least time of one operation of `work` over many stretches."""
    gc_was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        if work.warm_up_turns:
            work.loop(work.warm_up_turns)
        turns = 1 if work.before else _calibrate(work.loop, effort)
        best = _best_stretch(work, turns, effort)
    finally:
        if gc_was_on:
            gc.enable()
    looping = turns * (1 + work.inner_turns) * empty_ns
    return max(best - looping, 0.0) / (turns * work.per)


def _elapsed(loop: Callable[[int], object], turns: int) -> int:
    start = clock()
    loop(turns)
    return clock() - start


def _calibrate(loop: Callable[[int], object], effort: Effort) -> int:
    """Turns for one stretch; finding them out also warms up caches and free lists."""
    turns = 1
    _elapsed(loop, turns)
    while True:
        elapsed = min(_elapsed(loop, turns) for _ in range(3))
        if elapsed >= effort.stretch_ns // 2:
            return max(1, round(turns * effort.stretch_ns / elapsed))
        turns *= 2 if elapsed * 8 > effort.stretch_ns else 8


def _best_stretch(work: Workload, turns: int, effort: Effort) -> float:
    best = float("inf")
    repeats = 0
    # One go at a time cannot be cut into short stretches, so more of them must do.
    least_repeats = effort.least_repeats * (4 if work.before else 1)
    deadline = clock() + effort.budget_ns
    while repeats < least_repeats or clock() < deadline:
        if work.before:
            work.before()
        best = min(best, _elapsed(work.loop, turns))
        repeats += 1
    return best

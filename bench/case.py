"""What a benchmark case is, and the list of all cases.

A case is written once, against PyTorch's names: its `build` takes the framework's module and
returns a workload. Nothing here imports a framework, so the parent process can list the cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

Framework = Any  # the module `torch`, `weft`, or the floor extension: one set of names


@dataclass(frozen=True)
class Workload:
    """Prepared work; times are reported per operation, Python's own looping subtracted."""

    # Does the work `n` times, in `for _ in repeat(None, n)`.
    loop: Callable[[int], object]
    # Operations in one go.
    per: int = 1
    # Turns of `for _ in repeat(None, ...)` inside one go, whose own cost is subtracted too.
    inner_turns: int = 0
    # Untimed preparation of a single go; the loop is then always called with n = 1.
    before: Callable[[], object] | None = None
    # Goes before anything is timed, beyond those that find out how long one takes.
    warm_up_turns: int = 0
    # The largest difference from a float64 reference, in units in the last place.
    ulp: Callable[[], float] | None = None


@dataclass(frozen=True)
class Case:
    """One line of the benchmark."""

    id: str
    title: str
    build: Callable[[Framework], Workload]
    # How many times cheaper than PyTorch weft must be; None is shown but not judged.
    bar: float | None = None
    # Where PyTorch's matrix products are slow on this machine (see verdicts.py), this one holds.
    bar_on_slow_library: float | None = None
    # Products per go times 2 n^3, to print a rate; 0 where a rate means nothing.
    flops: float = 0.0
    ulp_limit: float | None = None
    threads: int = 1
    # The floor extension knows every name this case uses.
    floor: bool = False


@cache
def all_cases() -> dict[str, Case]:
    """Every timed case by its id, in the order of the report."""
    from bench import cases_large, cases_models, cases_optimiser, cases_overhead

    cases: dict[str, Case] = {}
    for case in [
        *cases_overhead.cases(),
        *cases_large.cases(),
        *cases_models.cases(),
        *cases_optimiser.cases(),
    ]:
        if case.id in cases:
            raise ValueError(f"two benchmark cases are called {case.id!r}")
        cases[case.id] = case
    return cases

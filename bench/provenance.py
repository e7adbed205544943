"""What it costs that every node remembers its line: the same chains with and without.

Run by the parent as `python -m bench.provenance --framework weft`; prints JSON. Needs weft's
private switch `weft._core.set_provenance(bool)`.
"""

from __future__ import annotations

import argparse
import json
from itertools import repeat

from bench import frameworks, measure
from bench.case import Case, Framework, Workload, all_cases
from bench.worker import describe

BASE_CASES = ("add-recorded", "chain", "chain-learn-b", "scalar-chain", "smallest-backward")
ROUNDS = 5


def function_per_step(torch: Framework) -> Workload:
    """A chain whose every step is a Python function: each call finds its line anew."""
    x = torch.full((4,), 0.5).requires_grad_()
    b = torch.full((4,), 0.9)

    def step(y: Framework) -> Framework:
        return y * b + b

    def loop(n: int) -> None:
        for _ in repeat(None, n):
            y = x
            for _ in repeat(None, 100):
                y = step(y)
            y.sum().backward()

    return Workload(loop, per=200, inner_turns=100)


def composed_operations(torch: Framework) -> Workload:
    """Operations that weft composes in Python: its own frames are passed over."""
    x = torch.full((2, 4), 0.5).requires_grad_()
    y = torch.full((2, 4), 0.9)
    functional = torch.nn.functional

    def loop(n: int) -> None:
        for _ in repeat(None, n):
            h = x
            for _ in repeat(None, 20):
                h = functional.smooth_l1_loss(functional.normalize(h), y, reduction="none")
            h.sum().backward()

    return Workload(loop, per=40, inner_turns=20)


EXTRA_CASES = (
    Case("function-per-step", "y * b + b, each step in a Python function", function_per_step),
    Case("composed", "normalize and smooth_l1_loss", composed_operations),
)


def cases() -> dict[str, Case]:
    """All cases measured with and without provenance."""
    known = all_cases()
    return {**{id: known[id] for id in BASE_CASES}, **{case.id: case for case in EXTRA_CASES}}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.provenance", description=__doc__)
    parser.add_argument("--framework", choices=frameworks.NAMES, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cases", nargs="+", required=True, metavar="ID")
    options = parser.parse_args()

    measure.pin_to_cpus(1)
    module = frameworks.load(options.framework)
    frameworks.set_threads(module, 1)
    switch = frameworks.provenance_switch(module)
    if switch is None:
        raise SystemExit("there is no weft._core.set_provenance to switch it off")
    effort = measure.QUICK if options.quick else measure.FULL
    empty_ns = measure.empty_turn_ns(effort)
    figures: dict[str, dict[str, float | str]] = {}
    for id in options.cases:
        try:
            work = cases()[id].build(module)
            best = {True: float("inf"), False: float("inf")}
            for _ in range(ROUNDS):
                for state in (True, False):
                    switch(state)
                    best[state] = min(
                        best[state], measure.nanoseconds_per_operation(work, effort, empty_ns)
                    )
            figures[id] = {"with_ns": best[True], "without_ns": best[False]}
        except Exception as error:
            figures[id] = {"error": describe(error)}
        finally:
            switch(True)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

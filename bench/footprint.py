"""What weft takes before it does anything, and what a very long graph takes.

As a module run by the parent (`python -m bench.footprint --framework weft --operations N`) it
builds the long chain and prints its figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from bench import child, frameworks
from bench.case import Framework

MEGABYTE = 1e6
CHAIN_OPERATIONS = 5_000_000
QUICK_CHAIN_OPERATIONS = 500_000
# Enough for PyTorch's long chain and for the rest of the machine.
BYTES_PER_OPERATION_AT_MOST = 1500


# --- import ---------------------------------------------------------------------------------------


@dataclass
class ImportCost:
    """What `import framework` adds to bare Python."""

    milliseconds: float
    resident_megabytes: float


def import_costs(names: tuple[str, ...], repeats: int) -> dict[str, ImportCost | str]:
    """The least of several fresh processes each, alternating with bare Python; or the error."""
    best: dict[str, tuple[float, float]] = {}
    failed: dict[str, ImportCost | str] = {}
    for _ in range(repeats):
        for name in ("bare", *names):
            if name in failed:
                continue
            try:
                seconds, resident = _start_python(name)
            except child.ChildError as error:
                failed[name] = str(error)
                continue
            before = best.get(name, (float("inf"), float("inf")))
            best[name] = (min(before[0], seconds), min(before[1], resident))
    bare = best["bare"]
    costs: dict[str, ImportCost | str] = {
        name: ImportCost((seconds - bare[0]) * 1e3, (resident - bare[1]) / MEGABYTE)
        for name, (seconds, resident) in best.items()
    }
    return costs | failed


def _start_python(name: str) -> tuple[float, float]:
    """Seconds of a whole Python process that imports `name`, and its resident bytes."""
    importing = "" if name == "bare" else f"import {frameworks.module_name(name)}\n"
    program = importing + "print(open('/proc/self/statm').read().split()[1])"
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=child.ROOT, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        raise child.ChildError(done.stderr.strip().splitlines()[-1])
    return seconds, int(done.stdout.split()[-1]) * os.sysconf("SC_PAGE_SIZE")


# --- the long chain -------------------------------------------------------------------------------


def long_chain(framework: str, operations: int) -> dict[str, Any]:
    """The figures of one long chain in a process with an 8 MB stack."""
    figures: dict[str, Any] = child.json_of(
        "bench.footprint",
        "--framework",
        framework,
        "--operations",
        str(operations),
        default_stack=True,
        timeout=240,
    )
    return figures


def operations_that_fit(wanted: int) -> int:
    """Fewer operations where memory is short: PyTorch needs several hundred bytes for each."""
    with open("/proc/meminfo") as lines:
        available = next(
            int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")
        )
    return min(wanted, int(available * 0.7) // BYTES_PER_OPERATION_AT_MOST)


def measure_long_chain(torch: Framework, operations: int) -> dict[str, float]:
    """Builds, differentiates and frees a chain; frees another one that never saw a backward."""
    x = torch.full((4,), 0.5).requires_grad_()
    b = torch.full((4,), 0.9)

    def build() -> Framework:
        y = x
        for _ in repeat(None, operations // 2):
            y = y * b + b
        return y

    def seconds(work: Callable[[], object]) -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    last_gradient = torch.full((4,), 1.0)
    held: list[Framework] = []
    before = resident_bytes()
    figures = {"build_s": seconds(lambda: held.append(build()))}
    figures["bytes_per_node"] = (resident_bytes() - before) / operations
    figures["backward_s"] = seconds(lambda: held[0].backward(last_gradient))
    figures["free_s"] = seconds(held.clear)
    held.append(build())
    figures["free_unused_s"] = seconds(held.clear)
    if x.grad is None:
        raise RuntimeError("no gradient arrived at the beginning of the chain")
    return figures


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.footprint", description=__doc__)
    parser.add_argument("--framework", choices=frameworks.NAMES, required=True)
    parser.add_argument("--operations", type=int, default=CHAIN_OPERATIONS)
    options = parser.parse_args()
    module = frameworks.load(options.framework)
    frameworks.set_threads(module, 1)
    print(json.dumps(measure_long_chain(module, options.operations)))


if __name__ == "__main__":
    main()

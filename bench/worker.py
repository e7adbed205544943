"""Measures a batch of cases in one framework; one JSON line per event on standard output.

    python -m bench.worker --framework weft --threads 1 --cases add chain/float64

Events: {"ready": {...}} once the framework is loaded or {"fatal": text}, then for every case
{"start": id} and {"case": id, "ns": ..., "ulp": ...} or {"case": id, "error": text}; at last
{"disturbed": share of the CPUs that others took}. The parent reads them line by line, so it knows
which case a crash belongs to.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from bench import frameworks, measure
from bench.case import Case, Framework, all_cases


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.worker", description=__doc__)
    parser.add_argument("--framework", choices=frameworks.NAMES, required=True)
    parser.add_argument("--cases", nargs="+", required=True, metavar="ID")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--ulp", action="store_true", help="also compare with the reference")
    options = parser.parse_args()

    # Before the import: libraries size their thread pools by what they find then.
    cpus = measure.pin_to_cpus(options.threads)
    try:
        module = frameworks.load(options.framework)
        frameworks.set_threads(module, options.threads)
    except Exception as error:
        emit(fatal=describe(error))
        return
    emit(
        ready={
            "version": str(getattr(module, "__version__", "")),
            "instruction_set": frameworks.instruction_set(module),
        }
    )

    disturbance = measure.Disturbance(cpus)
    effort = measure.QUICK if options.quick else measure.FULL
    empty_ns = measure.empty_turn_ns(effort)
    cases = all_cases()
    for id in options.cases:
        emit(start=id)
        emit(case=id, **measured(cases[id], module, effort, empty_ns, options.ulp))
    emit(disturbed=disturbance.share())


def measured(
    case: Case, module: Framework, effort: measure.Effort, empty_ns: float, with_ulp: bool
) -> dict[str, Any]:
    """The figures of one case, or the error it raised."""
    try:
        work = case.build(module)
        figures: dict[str, Any] = {}
        if with_ulp and work.ulp is not None:
            figures["ulp"] = work.ulp()
        figures["ns"] = measure.nanoseconds_per_operation(work, effort, empty_ns)
        return figures
    except Exception as error:
        return {"error": describe(error)}


def describe(error: BaseException) -> str:
    """One line: the kind of error and the first line of what it says."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}".rstrip(": ")


def emit(**event: Any) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    main()

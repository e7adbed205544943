"""`python -m bench`: weft against PyTorch eager. See bench/README.md."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import (
    alternate,
    cases_large,
    cases_models,
    cases_optimiser,
    cases_overhead,
    machine,
    report,
    verdicts,
)
from bench.alternate import Results
from bench.case import Case, all_cases
from bench.verdicts import Line

BOTH = ("weft", "torch")
FOOTPRINT_IMPORT = ("footprint/import", "footprint/memory")
FOOTPRINT_CHAIN = "footprint/chain"
BITS = ("bits/arithmetic", "bits/products")


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        default="",
        help="a regular expression for the cases' ids or titles",
    )
    parser.add_argument("--quick", action="store_true", help="a look within a minute")
    parser.add_argument("--rounds", type=int, help="rounds of A B (default 5, quick 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there")
    parser.add_argument("--list", action="store_true", help="print the timed cases and stop")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a bar is not met")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = options_of(arguments)
    rounds = options.rounds or (2 if options.quick else 5)
    pattern = re.compile(options.only)
    if options.list:
        print("\n".join(f"{case.id:32} {case.title}" for case in all_cases().values()))
        return 0

    def wanted(id: str, title: str = "") -> bool:
        return bool(pattern.search(id) or (title and pattern.search(title)))

    results = Results()
    alternate.run(
        (all_cases()[id] for id in machine.RATE_CASES),
        BOTH,
        1 if options.quick else 2,
        options.quick,
        results,
        progress,
    )
    print(
        "\n".join(machine.describe(results, BOTH).lines()),
        "",
        report.heading(),
        sep="\n",
        flush=True,
    )
    lines: list[Line] = []
    for line in measured(results, rounds, options.quick, wanted):
        print(report.text(line), flush=True)
        lines.append(line)
    print("", *report.disturbances(results), report.summary(lines), sep="\n")

    about = machine.describe(results, BOTH)
    if options.json:
        settings = {"quick": options.quick, "rounds": rounds, "only": options.only}
        options.json.write_text(report.to_json(about, results, lines, settings))
    if options.markdown:
        options.markdown.write_text(report.markdown(about, lines))
    return 1 if options.strict and any(line.met is False for line in lines) else 0


def measured(
    results: Results, rounds: int, quick: bool, wanted: Callable[..., bool]
) -> Iterator[Line]:
    """Every wanted line, section by section, as soon as it is known."""
    for section in (cases_overhead, cases_large, cases_models, cases_optimiser):
        cases = [case for case in section.cases() if wanted(case.id, case.title)]
        frameworks = (*BOTH, "floor") if any(case.floor for case in cases) else BOTH
        alternate.run(cases, frameworks, rounds, quick, results, progress)
        yield from verdicts.times(cases, results)
        if section is cases_overhead and has_weight_reuse(cases):
            yield from verdicts.weight_reuse(results)
        if section is cases_models and cases:
            yield from verdicts.model_floors(results)
    if any(map(wanted, FOOTPRINT_IMPORT)):
        yield from verdicts.imports(quick, progress)
    if wanted(FOOTPRINT_CHAIN):
        yield from verdicts.long_chain(quick, progress)
    yield from verdicts.provenance_cost(wanted, quick, progress)
    if any(map(wanted, BITS)):
        yield from verdicts.equal_bits(quick, progress)


def has_weight_reuse(cases: list[Case]) -> bool:
    ids = {case.id for case in cases}
    return {cases_overhead.REUSE_BACKWARD, cases_overhead.REUSE_PRODUCTS} <= ids


def progress(words: str) -> None:
    """What is going on, to a terminal only: the report itself goes to standard output."""
    if sys.stderr.isatty():
        print(f"\r\033[K[{words}]", end="\r", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

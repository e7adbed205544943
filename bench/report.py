"""The report as text for the terminal, as markdown for the README, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bench.alternate import Results
from bench.machine import Machine
from bench.verdicts import Line

TITLE_WIDTH = 66
NOTE_WIDTH = 100
DISTURBED_SHARE = 0.1


def heading() -> str:
    return (
        f"{'case':<{TITLE_WIDTH}} {'weft':>12} {'torch':>12} {'ratio':>8}  {'bar':<20} "
        f"{'':<8} {'floor':>8}  weft / torch"
    )


def text(line: Line) -> str:
    """One line for the terminal."""
    unit = "" if line.unit == "ns" else f" [{line.unit}]"
    return (
        f"{line.title + unit:<{TITLE_WIDTH}} {figure(line.weft):>12} {figure(line.torch):>12} "
        f"{times(line.ratio):>8}  {line.bar:<20} {met(line.met):<8} {figure(line.floor):>8}  "
        f"{line.note[:NOTE_WIDTH]}"
    ).rstrip()


def disturbances(results: Results) -> list[str]:
    """Warnings where even the quietest round shared its CPUs with other processes."""
    return [
        f"other processes took {share:.0%} of the CPUs in the quietest round of {framework} with "
        f"{threads} thread{'s' if threads > 1 else ''}: read those lines with care"
        for framework, of_framework in results.disturbed.items()
        for threads, share in of_framework.items()
        if share > DISTURBED_SHARE
    ]


def summary(lines: Sequence[Line]) -> str:
    judged = [line for line in lines if line.met is not None]
    failed = [line.id for line in judged if not line.met]
    words = f"{len(judged) - len(failed)} of {len(judged)} bars met"
    return f"{words}; not met: {', '.join(failed)}" if failed else words


def markdown(machine: Machine, lines: Sequence[Line]) -> str:
    """A table for the README."""
    rows = [
        "| case | unit | weft | PyTorch | ratio | bar | | floor | |",
        "|---|---|--:|--:|--:|---|---|--:|---|",
    ]
    rows += [
        "| "
        + " | ".join(
            [
                _cell(line.title),
                line.unit,
                figure(line.weft),
                figure(line.torch),
                times(line.ratio),
                _cell(line.bar),
                met(line.met),
                figure(line.floor) if line.floor is not None else "",
                _cell(line.note),
            ]
        )
        + " |"
        for line in lines
    ]
    about = "\n".join(f"* {about}" for about in machine.lines())
    return f"{about}\n\n" + "\n".join(rows) + f"\n\n{summary(lines)}\n"


def to_json(
    machine: Machine, results: Results, lines: Sequence[Line], settings: dict[str, Any]
) -> str:
    return (
        json.dumps(
            {
                "machine": asdict(machine),
                "settings": settings,
                "disturbed": results.disturbed,
                "lines": [asdict(line) for line in lines],
            },
            indent=1,
        )
        + "\n"
    )


def figure(value: float | None) -> str:
    """Three figures where there are few, whole numbers where there are many."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.1f}x" if ratio >= 10 else f"{ratio:.2f}x"


def met(value: bool | None) -> str:
    return {True: "met", False: "NOT MET", None: ""}[value]


def _cell(words: str) -> str:
    return words.replace("|", "\\|").replace("*", "\\*")

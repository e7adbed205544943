"""Runs batches of cases in alternating worker processes and keeps the best of the rounds."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from bench import child
from bench.case import Case

SECONDS_PER_BATCH = 120


@dataclass
class Measured:
    """What one framework did in one case."""

    ns: float | None = None
    ulp: float | None = None
    error: str | None = None

    def add(self, event: dict[str, Any]) -> None:
        if "error" in event:
            self.error = event["error"]
            return
        self.ns = event["ns"] if self.ns is None else min(self.ns, event["ns"])
        if "ulp" in event:
            self.ulp = event["ulp"]


@dataclass
class Results:
    """Everything measured, by framework and case id."""

    measured: dict[str, dict[str, Measured]] = field(default_factory=dict)
    about: dict[str, dict[str, str]] = field(default_factory=dict)
    # By framework and threads: the share of the CPUs that others took, in the quietest round.
    disturbed: dict[str, dict[int, float]] = field(default_factory=dict)

    def of(self, framework: str, id: str) -> Measured:
        return self.measured.setdefault(framework, {}).setdefault(id, Measured())

    def note_disturbance(self, framework: str, threads: int, share: float) -> None:
        of_framework = self.disturbed.setdefault(framework, {})
        of_framework[threads] = min(share, of_framework.get(threads, share))


def run(
    cases: Iterable[Case],
    frameworks: tuple[str, ...],
    rounds: int,
    quick: bool,
    results: Results,
    progress: Callable[[str], None],
) -> None:
    """A B A B ...: every round measures each case once in each framework, in fresh processes."""
    by_threads: dict[int, list[Case]] = {}
    for case in cases:
        by_threads.setdefault(case.threads, []).append(case)
    for threads, batch in by_threads.items():
        for round_number in range(rounds):
            for framework in frameworks:
                progress(
                    f"{len(batch)} cases, {threads} thread{'s' if threads > 1 else ''}, "
                    f"round {round_number + 1} of {rounds}: {framework}"
                )
                wanted = [
                    case.id
                    for case in batch
                    if results.of(framework, case.id).error is None
                    and (framework != "floor" or case.floor)
                ]
                _run_batch(framework, threads, wanted, quick, round_number == 0, results)


def _run_batch(
    framework: str, threads: int, ids: list[str], quick: bool, ulp: bool, results: Results
) -> None:
    """Runs one batch; a case that takes its process down is noted, and the rest goes on."""
    while ids:
        options = ["--framework", framework, "--threads", str(threads)]
        options += ["--quick"] * quick + ["--ulp"] * ulp
        started: str | None = None
        left = list(ids)
        with subprocess.Popen(
            [sys.executable, "-m", "bench.worker", *options, "--cases", *ids],
            cwd=child.ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as worker:
            timer = threading.Timer(SECONDS_PER_BATCH, worker.kill)
            timer.start()
            try:
                assert worker.stdout is not None and worker.stderr is not None
                complaint = _Tail(worker.stderr)
                for line in worker.stdout:
                    event = _event(line)
                    if "fatal" in event:
                        for id in ids:
                            results.of(framework, id).error = event["fatal"]
                        return
                    if "ready" in event:
                        results.about[framework] = event["ready"]
                    elif event.get("disturbed") is not None:
                        results.note_disturbance(framework, threads, event["disturbed"])
                    elif "start" in event:
                        started = event["start"]
                    elif "case" in event:
                        results.of(framework, event["case"]).add(event)
                        left.remove(event["case"])
                        started = None
                worker.wait()
                overtime = not timer.is_alive()
            finally:
                timer.cancel()
        if not left:
            return
        how = (
            f"stopped after {SECONDS_PER_BATCH} s"
            if overtime
            else f"the process ended with status {worker.returncode}: {complaint.last_line()}"
        )
        for id in [started] if started else left:
            results.of(framework, id).error = how
        ids = [id for id in left if started and id != started]


class _Tail:
    """Reads a stream in the background, so that it never fills, and keeps its last line."""

    def __init__(self, stream: Any) -> None:
        self._last = ""
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: Any) -> None:
        for line in stream:
            self._last = line.strip() or self._last

    def last_line(self) -> str:
        self._thread.join(timeout=1)
        return self._last


def _event(line: str) -> dict[str, Any]:
    """A worker's JSON line; whatever a library prints in between is passed over."""
    if not line.startswith("{"):
        return {}
    try:
        event = json.loads(line)
    except json.JSONDecodeError:
        return {}
    return event if isinstance(event, dict) else {}

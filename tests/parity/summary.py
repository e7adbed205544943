"""Which operations agree with PyTorch: `python -m tests.parity.summary`.

Checks run in worker processes, so a crash or a hang costs one operation and says which call did it.

    --only NAME ...   these names (a name, or a prefix with `*`)
    --samples N       at most N samples per operation and dtype (0: all; default 20)
    --references N    and N of PyTorch's larger reference inputs (default 0)
    --dtypes D ...    these dtypes (and "errors": the samples that must raise)
    --all             every failure, not only the first of an operation
    --json FILE       everything, for a machine
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import fnmatch
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
READY = {"ready": True}


@dataclasses.dataclass
class Report:
    """What a worker found for one name."""

    name: str
    checks: int = 0
    seconds: float = 0.0
    failures: list[dict[str, str]] = dataclasses.field(default_factory=list)

    @property
    def verdict(self) -> str:
        if not self.failures:
            return "pass" if self.checks else "unchecked"
        kinds = [failure["kind"] for failure in self.failures]
        for kind in ("crash", "timeout"):
            if kind in kinds:
                return kind
        # A function that is not there at all, rather than one variant of it.
        if any(f["kind"] == "missing" and f["variant"] == "function" for f in self.failures):
            return "missing"
        return kinds[0]


# -- worker --------------------------------------------------------------------------------


def work(options: argparse.Namespace) -> None:
    """Reads names from stdin, answers one line of JSON for each."""
    # The library under test must not write into the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    import torch

    from .. import _target
    from . import opdb

    torch.set_num_threads(1)
    progress = os.open(options.progress, os.O_WRONLY | os.O_CREAT)

    def note(text: str) -> None:
        line = text.encode()[:1000]
        os.pwrite(progress, line + b" " * (1000 - len(line)), 0)

    print(json.dumps(READY), file=answers)
    for line in sys.stdin:
        name = line.strip()
        report, start = Report(name), time.monotonic()
        for op in opdb.variants_of(name):
            for dtype in opdb.dtypes_of(op):
                if options.dtypes and dtype not in options.dtypes:
                    continue
                note(f"{opdb.full_name(op)} {dtype} [samples]")
                failures, checks = opdb.check(
                    _target.weft,
                    op,
                    dtype,
                    samples=options.samples,
                    references=options.references,
                    note=note,
                )
                report.checks += checks
                report.failures += [dataclasses.asdict(failure) for failure in failures]
        report.seconds = time.monotonic() - start
        print(json.dumps(dataclasses.asdict(report)), file=answers)


class NoWorker(Exception):
    """The module under test cannot even be imported."""


class Worker:
    """A worker process; started again after a crash."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        handle, self.progress = tempfile.mkstemp(prefix="parity-")
        os.close(handle)
        self.process: subprocess.Popen[str] | None = None
        self.answers: queue.Queue[str | None] = queue.Queue()
        self.stderr_path = self.progress + ".err"

    def start(self) -> None:
        options = self.options
        command = [sys.executable, "-m", "tests.parity.summary", "--worker"]
        command += ["--progress", self.progress, "--samples", str(options.samples)]
        command += ["--references", str(options.references)]
        if options.dtypes:
            command += ["--dtypes", *options.dtypes]
        path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)])
        environment = {
            **os.environ,
            "PYTHONPATH": path,
            "OMP_NUM_THREADS": "1",
            "PYTHONFAULTHANDLER": "1",
        }
        with open(self.stderr_path, "w") as errors:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self.answers = queue.Queue()
        threading.Thread(target=self._read, args=(self.process, self.answers), daemon=True).start()
        if self._next(120) is None:
            tail = Path(self.stderr_path).read_text()[-2000:]
            raise NoWorker(f"The worker did not start:\n{tail}")

    @staticmethod
    def _read(process: subprocess.Popen[str], answers: queue.Queue[str | None]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            answers.put(line)
        answers.put(None)

    def _next(self, timeout: float) -> str | None:
        """A line, or None at the end of the process. Raises `queue.Empty` after `timeout`."""
        return self.answers.get(timeout=timeout)

    def ask(self, name: str) -> Report:
        if self.process is None or self.process.poll() is not None:
            self.start()
        process = self.process
        assert process is not None and process.stdin is not None
        process.stdin.write(name + "\n")
        process.stdin.flush()
        try:
            answer = self._next(self.options.timeout)
        except queue.Empty:
            return self._stopped(name, "timeout", f"no answer in {self.options.timeout} s")
        if answer is None:
            code = process.wait()
            what = f"signal {-code}" if code < 0 else f"exit status {code}"
            return self._stopped(name, "crash", f"{what}; {self._last_words()}")
        return Report(**json.loads(answer))

    def _last_words(self) -> str:
        """The line of the worker's standard error that says most."""
        lines = Path(self.stderr_path).read_text(errors="replace").strip().splitlines()
        telling = [line for line in lines if "Fatal" in line or "ERROR:" in line]
        return ([*telling, *lines[-1:], ""])[0][:200]

    def _stopped(self, name: str, kind: str, text: str) -> Report:
        call = Path(self.progress).read_text().strip()
        self.stop()
        failure = {"op": name, "dtype": "", "kind": kind, "variant": "", "call": call, "text": text}
        return Report(name, failures=[failure])

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None

    def close(self) -> None:
        self.stop()
        for path in (self.progress, self.stderr_path):
            Path(path).unlink(missing_ok=True)


# -- the parent ----------------------------------------------------------------------------


def survey(names: list[str], options: argparse.Namespace) -> list[Report]:
    todo: queue.Queue[str] = queue.Queue()
    for name in names:
        todo.put(name)
    reports: dict[str, Report] = {}
    refusals: list[NoWorker] = []

    def serve() -> None:
        worker = Worker(options)
        try:
            while True:
                name = todo.get_nowait()
                reports[name] = worker.ask(name)
                if sys.stderr.isatty():
                    print(f"\r{len(reports)}/{len(names)} {name:40}", end="", file=sys.stderr)
        except queue.Empty:
            pass
        except NoWorker as error:
            refusals.append(error)
        finally:
            worker.close()

    threads = [threading.Thread(target=serve) for _ in range(min(options.jobs, len(names)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if sys.stderr.isatty():
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    if refusals:
        raise SystemExit(str(refusals[0]))
    return [reports[name] for name in names]


def line_of(failure: dict[str, str]) -> str:
    place = " ".join(part for part in (failure["op"], failure["dtype"]) if part)
    variant = f" [{failure['variant']}]" if failure["variant"] else ""
    return f"  {place}{variant}: {failure['text']} | {failure['call'][:110]}"


def first_missing(report: Report) -> list[dict[str, str]]:
    return [failure for failure in report.failures if failure["kind"] == "missing"][:1]


def show(reports: list[Report], options: argparse.Namespace) -> None:
    groups: dict[str, list[Report]] = collections.defaultdict(list)
    for report in reports:
        groups[report.verdict].append(report)
    passed = groups.pop("pass", [])
    missing = groups.pop("missing", [])
    for verdict, group in sorted(groups.items(), key=lambda item: len(item[1])):
        print(f"\n{verdict} ({len(group)})")
        for report in group:
            kinds = collections.Counter(failure["kind"] for failure in report.failures)
            shown = report.failures if options.all else report.failures[:1]
            for failure in shown:
                print(line_of(failure))
            if len(report.failures) > len(shown):
                counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
                print(f"      of {len(report.failures)} failures: {counts}")
    if missing:
        print(f"\nmissing ({len(missing)})\n  " + " ".join(report.name for report in missing))
        wanted = collections.Counter(
            failure["text"] for report in missing for failure in first_missing(report)
        )
        for text, count in wanted.most_common(12):
            print(f"    {count:4} {text}")
    if options.passed:
        print(f"\npass ({len(passed)})\n  " + " ".join(report.name for report in passed))
    checks = sum(report.checks for report in reports)
    failures = sum(len(report.failures) for report in reports)
    print(
        f"\n{len(passed)} of {len(reports)} names pass ({100 * len(passed) / len(reports):.1f}%), "
        f"{len(missing)} missing, {len(reports) - len(passed) - len(missing)} fail; "
        f"{checks} checks, {failures} failures"
    )


def chosen_names(patterns: list[str]) -> list[str]:
    lines = Path(__file__).with_name("engine_ops.txt").read_text().splitlines()
    names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not patterns:
        return names
    chosen = [name for name in names if any(fnmatch.fnmatchcase(name, p) for p in patterns)]
    if not chosen:
        raise SystemExit(f"No name of the list is {' or '.join(patterns)}")
    return chosen


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--references", type=int, default=0)
    parser.add_argument("--dtypes", nargs="+", default=[])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--passed", action="store_true", help="list the names that pass, too")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--progress", default="", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = options_of(sys.argv[1:] if arguments is None else arguments)
    if options.worker:
        work(options)
        return 0
    reports = survey(chosen_names(options.only), options)
    show(reports, options)
    if options.json:
        contents: list[dict[str, Any]] = [
            {**dataclasses.asdict(report), "verdict": report.verdict} for report in reports
        ]
        options.json.write_text(json.dumps(contents, indent=1))
    return 0 if all(report.verdict == "pass" for report in reports) else 1


if __name__ == "__main__":
    raise SystemExit(main())

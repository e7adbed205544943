"""The record of a gradient check, and its file."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import platform
import subprocess
from typing import Any

FORMAT = "weft-verify/1"


@dataclasses.dataclass(frozen=True)
class InputResult:
    """What was found for one input or parameter."""

    name: str
    shape: list[int]
    dtype: str
    order: int  # 1: the gradient; 2: the gradient of a random projection of the gradient
    elements: int  # compared with finite differences
    worst_error: float
    worst_at: list[int]
    analytical: float
    numerical: float
    allowed: float
    passed: bool


@dataclasses.dataclass(frozen=True)
class Record:
    """What was compared and found; `str()` is a table."""

    target: str
    arguments: list[str]
    seed: int
    dtype: str
    step: float
    atol: float
    rtol: float
    samples: int
    second_order: bool
    results: list[InputResult]
    source_sha256: str | None
    environment: dict[str, Any]

    @property
    def passed(self) -> bool:
        """Whether every element compared is within the tolerance."""
        return bool(self.results) and all(result.passed for result in self.results)

    def figures(self) -> list[dict[str, Any]]:
        """What a repetition must find again."""
        return [dataclasses.asdict(result) for result in self.results]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the record as JSON."""
        data = {"format": FORMAT, "passed": self.passed, **dataclasses.asdict(self)}
        with open(path, "w", encoding="utf-8") as out:
            json.dump(data, out, indent=2)
            out.write("\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Record:
        """Reads a record back."""
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
            raise ValueError(f"{os.fspath(path)} is not a record of weft verify ({FORMAT})")
        data.pop("passed", None)
        try:
            data["results"] = [InputResult(**result) for result in data["results"]]
            return cls(**data)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{os.fspath(path)} is not a whole record: {error}") from None

    def __str__(self) -> str:
        rows = [("", "elements", "worst error", "at", "backward", "differences", "")]
        for r in self.results:
            name = r.name if r.order == 1 else f"{r.name} (2nd)"
            where = str(r.worst_at) if r.elements else "-"
            verdict = "ok" if r.passed else "WRONG"
            figures = (f"{r.worst_error:.2e}", where, f"{r.analytical:.6g}", f"{r.numerical:.6g}")
            rows.append((name, str(r.elements), *figures, verdict))
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = [
            f"{self.target}: gradients against central differences",
            f"{self.dtype}, seed {self.seed}, "
            f"step {self.step:g}, tolerance {self.atol:g} + {self.rtol:g} * |difference|",
        ]
        for row in rows:
            rest = [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
            lines.append("  ".join([row[0].ljust(widths[0]), *rest]).rstrip())
        worst = max((r.worst_error for r in self.results), default=0.0)
        lines.append(f"{'passed' if self.passed else 'FAILED'}: worst error {worst:.2e}")
        return "\n".join(lines)


def environment(configuration: dict[str, Any]) -> dict[str, Any]:
    """Versions, machine, commit and time."""
    import weft
    from weft import _core

    return {
        "weft": weft.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "cpu": _cpu_name(),
        "instruction_set": _core.cpu_capability(),
        "products": _core.describe_products(),
        "threads": _core.get_num_threads(),
        "configuration": configuration,
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = (line.partition(":")[2].strip() for line in file if "model name" in line)
            return next(names, platform.processor())
    except OSError:
        return platform.processor()


def _commit() -> str | None:
    """The commit of the working folder, with a + when it has been changed since."""
    try:
        head = _git("rev-parse", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, check=True, timeout=10)
    return done.stdout.decode().strip()

"""What a finding is, and how it reaches the user: once per cause, unless it is expected there."""

from __future__ import annotations

import dataclasses
import linecache
import re
import warnings
from typing import Any

from weft._callers import Line

# kind: what it means
KINDS = {
    "stale-gradients": "A step used a gradient that an earlier step had already used: nothing "
    "cleared it in between, so it is the sum over both.",
    "broken-chain": "The loss does not depend on a parameter any more, because a line on the way "
    "turned a recorded value into a plain one.",
    "step-without-gradients": "Gradients were computed, but cleared before the optimizer could use "
    "them: its steps change nothing.",
    "unreached-parameters": "A parameter is in the optimizer, but no part of the loss uses it.",
    "unoptimised-parameters": "A parameter receives gradients, but belongs to no optimizer.",
    "unregistered-parameters": "Modules or parameters stand in a plain list or dict, where "
    "parameters(), to() and state_dict() do not see them.",
    "step-in-evaluation-mode": "The optimizer steps while the model is in evaluation mode.",
    "evaluation-in-training-mode": "A model in training mode is evaluated: dropout drops, and "
    "batch norm mixes the examples of a batch and learns from them.",
    "accidental-broadcast": "Tensors of different shapes were broadcast against each other, and "
    "the loss mixes elements that do not belong together.",
}


class DoctorWarning(UserWarning):
    """A finding of the doctor."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """One silent failure: what, where from, where it showed, and what to do."""

    kind: str
    message: str
    cause: Line | None
    symptom: Line | None
    module: str | None
    step: int | None
    cure: str

    def as_json(self) -> dict[str, Any]:
        """The finding as plain data."""

        def place(line: Line | None) -> dict[str, Any] | None:
            return None if line is None else {"file": line[0], "line": line[1]}

        record = dataclasses.asdict(self)
        return {**record, "cause": place(self.cause), "symptom": place(self.symptom)}

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.message}"]
        for label, line in (("cause: ", self.cause), ("seen:  ", self.symptom)):
            if line is not None:
                source = linecache.getline(*line).strip()
                lines.append(f"  {label} {line[0]}:{line[1]}" + (f"    {source}" if source else ""))
        if self.module:
            lines.append(f"  where:  {self.module}")
        lines.append(f"  why:    {KINDS[self.kind]}")
        lines.append(f"  cure:   {self.cure}")
        lines.append(f"  (meant so? write `# weft: expected {self.kind}` on one of these lines)")
        return "\n".join(lines)


_findings: list[Finding] = []
_known: set[tuple[str, Line | None, str | None]] = set()
_EXPECTED = re.compile(r"#\s*weft:\s*expected\s+([\w\s,-]+)")


def findings() -> list[Finding]:
    """What has been found in this process so far."""
    return list(_findings)


def clear() -> None:
    """Forgets what has been found, so that it would be told again."""
    _findings.clear()
    _known.clear()


def is_expected(kind: str, line: Line | None) -> bool:
    """Whether the program says, on this line, that it means it."""
    if line is None:
        return False
    said = _EXPECTED.search(linecache.getline(*line))
    return said is not None and kind in re.split(r"[\s,]+", said.group(1))


def report(
    kind: str,
    message: str,
    *,
    cause: Line | None,
    symptom: Line | None,
    cure: str,
    module: str | None = None,
    step: int | None = None,
    quiet: bool = False,
) -> None:
    """Tells the user, once per cause. ``quiet``: an error that says the same follows at once."""
    key = (kind, cause or symptom, None if cause else module)
    if key in _known or is_expected(kind, cause) or is_expected(kind, symptom):
        return
    _known.add(key)
    finding = Finding(kind, message, cause, symptom, module, step, cure)
    _findings.append(finding)
    if not quiet:
        file, line = symptom or cause or ("<unknown>", 0)
        warnings.warn_explicit(str(finding), DoctorWarning, file, line)

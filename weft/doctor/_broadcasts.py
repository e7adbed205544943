"""Accidental broadcasting in front of a loss."""

from __future__ import annotations

import re
from typing import Any

from weft import _core
from weft._callers import Line, calling_line
from weft.doctor import _source
from weft.doctor._findings import report
from weft.doctor._names import module_path

_CURE = "give both the same shape, for example prediction.squeeze(-1) or target.view_as(...)"

# Whoever adds a dimension in the very statement wants all pairs.
_LIFTS = re.compile(r"\bNone\s*[\],]|\[\s*None\b|newaxis|unsqueeze|\bouter\b|expand")


def found_in_graph(node: Any) -> None:
    """Backward has met an operation near its root that blew both of its arguments up."""
    line: Line | None = None if node.site is None else node.site[:2]
    if line is not None and _LIFTS.search(_source.statement_at(line)):
        return
    operation = node.name().removesuffix("0").removesuffix("Backward").lower()
    report(
        "accidental-broadcast",
        f"{operation} of {node._doctor_note} gives {list(node.results[0][0])}, and the loss is "
        "computed from all of it",
        cause=line,
        symptom=calling_line(),
        module=module_path(node.scope),
        step=_core._step_number() + 1,
        cure=_CURE,
    )


def found_by_loss(prediction: Any, target: Any) -> None:
    """A loss of the library was given two shapes, and neither is a single number."""
    if prediction.numel() == 1 or target.numel() == 1:
        return
    line = calling_line()
    report(
        "accidental-broadcast",
        f"the loss is given a prediction of shape {list(prediction.shape)} and a target of shape "
        f"{list(target.shape)}, and is computed from every pair that broadcasting makes of them",
        cause=line,
        symptom=line,
        step=_core._step_number() + 1,
        cure=_CURE,
    )

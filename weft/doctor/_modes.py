"""Steps in evaluation mode, and evaluation in training mode.

Training mode with gradients and evaluation mode without are what programs mean; the core tells
only of calls where the two do not match. Neither mismatch is wrong by itself: a discriminator is
fed by a generator that runs without gradients, in training mode. So a call is only remembered, and
judged by what follows: a step that updates a model in evaluation mode; a value computed in training
mode that no recorded operation ever uses, but from which numbers or classes are read.
"""

from __future__ import annotations

import weakref
from typing import Any

from weft import _core
from weft._callers import Line, calling_line, is_own_file
from weft.doctor import _names
from weft.doctor._findings import report

_MANY = 50  # mismatches of a module without a finding: it is meant so


class _Calls:
    """What is remembered of a module's calls since the last step."""

    def __init__(self, module: Any) -> None:
        self.module = weakref.ref(module)
        self.told = 0
        self.evaluated: list[tuple[Any, Line | None]] = []  # mark of the result, line
        self.trained_at: Line | None = None
        self.judged = False
        self.kept: Any = None  # the module, until its last evaluation is judged


_calls: dict[int, _Calls] = {}


def mismatch(module: Any, result: Any, line: Line | None) -> bool:
    """An outermost call whose mode did not match. Whether to be told of this module again."""
    calls = _calls.get(id(module))
    if calls is None or calls.module() is not module:
        if not _mode_matters(module):
            return False
        calls = _calls[id(module)] = _Calls(module)
    calls.told += 1
    if calls.judged or calls.told > _MANY:
        return False
    if module.training:
        mark = _mark_of(result)
        if mark is not None and len(calls.evaluated) < _MANY:
            calls.evaluated.append((mark, line))
            if any(_core._is_optimised(p) for p in module.parameters()):
                calls.kept = module
    else:
        calls.trained_at = line
    _core._await_step()
    return True


def at_step(parameters: list[Any]) -> None:
    """Judges what was remembered, now that an optimizer has updated these parameters."""
    if not _calls:
        return
    updated = {id(p) for p in parameters}
    for key, calls in list(_calls.items()):
        module = calls.module()
        if module is None:
            del _calls[key]
            continue
        _judge_evaluation(calls, module)
        if calls.trained_at is None or not any(id(p) in updated for p in module.parameters()):
            continue
        if module.training:
            calls.trained_at = None  # attacked or explained in evaluation mode, trained in training
        else:
            _report_step(calls, module)


def finish() -> None:
    """At the end of a program: what was evaluated after the last step."""
    for calls in list(_calls.values()):
        module = calls.module()
        if module is not None:
            _judge_evaluation(calls, module)


def forget() -> None:
    """Starts afresh."""
    _calls.clear()


def _judge_evaluation(calls: _Calls, module: Any) -> None:
    evaluated, calls.evaluated, calls.kept = calls.evaluated, [], None
    if not evaluated or calls.judged:
        return
    if any(mark is not _INFERENCE and mark._feeds_recorded for mark, _ in evaluated):
        calls.judged = True  # its values are used for training
        return
    read = [line for mark, line in evaluated if mark is _INFERENCE or mark._counted]
    if not read or not any(_core._is_optimised(p) for p in module.parameters()):
        return
    calls.judged = True
    line = read[0]
    report(
        "evaluation-in-training-mode",
        f"{type(module).__name__} was evaluated without gradients while in training mode "
        f"({_mode_matters(module)} behaves differently there)",
        cause=line,
        symptom=line,
        module=type(module).__name__,
        step=_core._step_number(),
        cure="call model.eval() before evaluating, and model.train() afterwards",
    )


def _report_step(calls: _Calls, module: Any) -> None:
    calls.judged = True
    report(
        "step-in-evaluation-mode",
        f"{type(module).__name__} is being trained in evaluation mode "
        f"({_mode_matters(module)} behaves differently there)",
        cause=_left_training_at(module) or calls.trained_at,
        symptom=calling_line() or calls.trained_at,
        module=type(module).__name__,
        step=_core._step_number(),
        cure="call model.train() before the training loop, and after every evaluation",
    )


def _left_training_at(module: Any) -> Line | None:
    """The line of the last ``eval()`` of a module, or of one that it belongs to."""
    from weft.nn.modules import _mode_lines

    line = _mode_lines.left_training_at(module)
    modules = _names.all_modules() if line is None else []
    inner = module
    while line is None and (above := _names.container_of(inner, modules)) is not None:
        inner = above[0]
        line = _mode_lines.left_training_at(inner)
    return line


def _mode_matters(module: Any) -> str:
    """The name of a module below for which the mode makes a difference; empty if there is none."""
    for name, inner in module.named_modules():
        if getattr(inner, "track_running_stats", False) and inner.running_mean is not None:
            return name or type(inner).__name__
        kind = type(inner).__name__
        dropping = kind.endswith("Dropout") or kind.rstrip("123d").endswith("Dropout")
        if dropping and getattr(inner, "p", 0) > 0:
            return name or kind
        if _drops_inside(inner) or _asks_for_mode(inner):
            return name or kind
    return ""


def _drops_inside(module: Any) -> bool:
    """Layers of weft's own that drop without a dropout below them: attention, recurrent stacks."""
    rate = module.__dict__.get("dropout")
    if not isinstance(rate, float) or rate <= 0 or not type(module).__module__.startswith("weft."):
        return False
    return bool(module.__dict__.get("num_layers", 2) > 1)


def _asks_for_mode(module: Any) -> bool:
    """Whether a class of the user's own looks at ``self.training``."""
    forward = getattr(type(module).forward, "__code__", None)
    if forward is None or is_own_file(forward.co_filename):
        return False
    return _names.mentions(module, "training")


_INFERENCE = object()  # inference mode leaves no marks, and lets no value into training


def _mark_of(result: Any) -> Any:
    """The mark that says where a result lost its history."""
    if isinstance(result, _core.Tensor):
        if result.is_inference():
            return _INFERENCE
        cut = _core._cut_node(result)
        return None if cut is None else cut[1]
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        for item in result:
            mark = _mark_of(item)
            if mark is not None:
                return mark
    return None

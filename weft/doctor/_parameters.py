"""Parameters that receive gradients but that no optimizer has."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Sequence
from typing import Any

from weft import _core
from weft._callers import Line, calling_line
from weft.doctor import _names
from weft.doctor._findings import report

# Two steps of grace: an optimizer may be made late, or be given a new layer's parameters after the
# layer's first use.
_GRACE = 2

_met: list[tuple[weakref.ref[Any], int, int]] = []  # leaf, its version, number of the step
_steps = 0
_kept: list[Any] = []  # the models of those met before the first step, until they are judged
_models_are_trained = False  # an optimizer has parameters of modules, not only inputs


def met_unoptimised(parameter: Any) -> None:
    """The first gradient of a parameter without an optimizer."""
    _met.append((weakref.ref(parameter), parameter._version, _steps))
    _core._await_step()


def at_step(parameters: list[Any]) -> bool:
    """Judges those whose time is up; whether some are still waiting."""
    global _steps
    _steps += 1
    if not _met:
        return False
    global _models_are_trained
    if not _models_are_trained:
        modules = _names.all_modules()
        _models_are_trained = any(_names.owner_of(p, modules) is not None for p in parameters[:3])
    _kept.clear()
    if _steps <= _GRACE:  # should the program end before the grace does
        _kept.extend(root for root in _names.roots(_names.all_modules()) if _is_met(root))
    due = [entry for entry in _met if _steps - entry[2] > _GRACE]
    _met[:] = [entry for entry in _met if _steps - entry[2] <= _GRACE]
    _judge(due)
    if _met:
        _core._await_step()
    return bool(_met)


def finish() -> None:
    """At the end of a program no optimizer comes any more for those met before the first step."""
    due, _met[:] = [entry for entry in _met if entry[2] == 0], []
    if _steps:
        _judge(due)
    _kept.clear()


def _is_met(root: Any) -> bool:
    met = {id(ref()) for ref, _, _ in _met}
    return any(id(p) in met for p in root.parameters())


def forget() -> None:
    """Starts afresh."""
    global _steps, _models_are_trained
    _met.clear()
    _kept.clear()
    _steps = 0
    _models_are_trained = False


def _judge(due: Sequence[tuple[weakref.ref[Any], int, int]]) -> None:
    alive = [(ref(), version) for ref, version, _ in due]
    lost = [
        p
        for p, version in alive
        if p is not None
        and p.requires_grad
        and not _core._is_optimised(p)
        and p._version == version  # else somebody updates it by hand
    ]
    if not lost:
        return
    modules = _names.all_modules()
    forgotten: dict[Line | None, list[Any]] = {}
    hidden: dict[tuple[int, str], tuple[Any, str, Any]] = {}
    for parameter in lost:
        owned = _names.owner_of(parameter, modules)
        thing = owned[0] if owned else parameter
        place = next(_hiding_places(thing, modules), None)
        if place is not None:
            hidden.setdefault((id(place[0]), place[1]), (*place, thing))
        elif owned is not None and _models_are_trained:
            line = _optimizer_line(parameter, modules) or _names.assignment_line(*owned)
            forgotten.setdefault(line, []).append(parameter)
    for holder, attribute, thing in hidden.values():
        _report_hidden(holder, attribute, thing)
    for line, parameters in forgotten.items():
        _report_forgotten(parameters, line, modules)


def _report_hidden(holder: Any, attribute: str, thing: Any) -> None:
    value = holder.__dict__[attribute]
    if value is thing:
        what, cure = "a plain tensor", "wrap it in nn.Parameter"
    else:
        what = f"{type(thing).__name__} in a plain {type(value).__name__}"
        cure = "use nn.ModuleList or nn.ModuleDict (nn.ParameterList for parameters)"
    report(
        "unregistered-parameters",
        f"{type(holder).__name__}.{attribute} holds {what}, which parameters() does not see: it is "
        "not trained",
        cause=_names.assignment_line(holder, attribute),
        symptom=calling_line(),
        module=f"{type(holder).__name__}.{attribute}",
        step=_core._step_number(),
        cure=cure,
    )


def _report_forgotten(parameters: list[Any], line: Line | None, modules: list[Any]) -> None:
    names = [_names.parameter_name(p, modules) for p in parameters]
    report(
        "unoptimised-parameters",
        f"{_names.listed(names)} {'receives' if len(names) == 1 else 'receive'} gradients, but no "
        f"optimizer has {'it' if len(names) == 1 else 'them'}",
        cause=line,
        symptom=calling_line(),
        module=names[0].rpartition(".")[0] or None,
        step=_core._step_number(),
        cure="give them to an optimizer, or freeze them with requires_grad_(False)",
    )


def _hiding_places(owner: Any, modules: list[Any]) -> Any:
    """Where an owner, or a module that it is registered in, stands in a plain container."""
    thing: Any = owner
    while thing is not None:
        yield from _names.holders_of(thing, modules)
        above = _names.container_of(thing, modules)
        thing = above[0] if above else None


def _optimizer_line(parameter: Any, modules: list[Any]) -> Line | None:
    """The line that made the optimizer of the same model, or else the last optimizer."""
    optim = sys.modules.get("weft.optim.optimizer")
    if optim is None:
        return None
    mates: set[int] = set()
    for root in _names.roots(modules):
        own = {id(p) for p in root.parameters()}
        if id(parameter) in own:
            mates |= own
    for thing in gc.get_objects():
        if not issubclass(type(thing), optim.Optimizer) or "_made_at" not in thing.__dict__:
            continue
        if any(id(p) in mates for group in thing.param_groups for p in group["params"]):
            return thing.__dict__["_made_at"]  # type: ignore[no-any-return]
    return optim.last_made_at  # type: ignore[no-any-return]

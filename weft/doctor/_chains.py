"""Parameters that the loss does not reach, and the line that cut them off.

Note [Looking for the line that cut]
A value without history is not linked to what it came from, and keeping such links in every run
would keep whole graphs alive. So the first step that finds parameters without a gradient only turns
the tracing of cuts on; until the next one, every cut keeps the node whose history it ended. Then it
is asked from which of them the parameters could have been reached. If none explains it, one step
more shows whether the model hands what was computed from them to its caller: what is dropped inside
cannot come back, but a result may only be waiting for its turn in the loss.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from weft import _core
from weft._callers import Line, calling_line
from weft.doctor import _names, _source, _watch
from weft.doctor._findings import findings, report

_FOR_GOOD = 2**31 - 2
_PATIENCE = 30  # steps, where a parameter may just not have had its turn
_KEPT = 8  # models that are kept alive to be judged at the end of the program

_CURES = {
    "detach": "remove the detach(), or say that it is meant",
    "data": "use the tensor itself instead of .data",
    "item": "keep the value as a tensor instead of a number, a list or an array",
}

# Groups with parameters that have never had a gradient: their notes, and those parameters.
_open: dict[int, tuple[dict[str, Any], list[weakref.ref[Any]]]] = {}

_idle: set[int] = set()  # parameters of optimizers that were found to step without gradients


def no_history(root: Any) -> None:
    """The loss itself has no history."""
    cut = _core._cut_node(root)
    if cut is not None:
        name, mark = cut
        line = None if mark.site is None else mark.site[:2]
        module = _names.module_path(mark.scope)
    else:
        site = _core._last_read()
        name, line, module = "item", None if site is None else site[:2], None
    if line is None:
        return
    report(
        "broken-chain",
        f"the loss has no history: {_described(name)} made a plain value of it",
        cause=line,
        symptom=calling_line(),
        module=module,
        step=_core._step_number() + 1,
        cure=_cure(name),
        quiet=True,
    )


def at_step(notes: dict[str, Any], parameters: list[Any]) -> int:
    """Looks for parameters that have never had a gradient; returns how many steps to sleep."""
    group = notes.get("group")
    if group is None:
        group = notes["group"] = {}
        # When the optimizer goes, its questions go.
        owner = notes["owner"] = _Owner()
        weakref.finalize(owner, _abandon, group).atexit = False
    return _judge(group, parameters)


class _Owner:
    """Lives as long as an optimizer's notes."""


def _abandon(group: dict[str, Any]) -> None:
    if "since" in group:
        _watch.cuts_since(group.pop("since"))
    if "idle" in group:
        _close(group)


def _judge(notes: dict[str, Any], parameters: list[Any]) -> int:
    if "done" in notes:
        return _FOR_GOOD
    told = notes["told"] = notes.get("told", 0) + 1
    if told == 1:
        return _first_step(notes, parameters)
    if notes.get("idle") is not None:
        return _FOR_GOOD if _judge_idle(notes, parameters) else 0
    never = notes.get("never", set()) & _without_gradient(parameters)
    if told == 2:
        cuts = _watch.cuts_since(notes.pop("since"))
        if never and cuts:
            never = _explain(never, parameters, cuts)
        if never:
            roots = _roots_of(never, parameters)
            notes["returned"] = _watch.results_of(roots)
            if len(_open) <= _KEPT:
                notes["kept"] = roots
    notes["never"] = never
    if not never:
        return _close(notes)
    if told == 2:
        return 0
    if told == 3:
        notes["reached"] = _watch.stop_results(notes)
        patient = _report_unreached(never, parameters, notes["reached"], told)
        if not patient:
            return _close(notes)
        notes["never"] = patient
        notes["until"] = _core._step_number() + _PATIENCE
        notes["turns"] = _watch.Turns(patient, parameters)
        return _PATIENCE
    left = notes["until"] - _core._step_number()
    if left > 0:
        return int(left)
    _report_unreached(_still_waiting(notes), parameters, notes["reached"], told)
    return _close(notes)


def steps_are_idle(parameter: Any) -> bool:
    """Whether this parameter's gradients are being cleared between backward and step."""
    if id(parameter) in _idle:
        return True
    waiting = [notes["idle"] for notes, _ in _open.values() if "idle" in notes]
    return any(arrivals.cleared_at is not None for arrivals in waiting)


def finish() -> None:
    """At the end of a program: what never reached the loss, though it was computed every time."""
    for notes, refs in list(_open.values()):
        parameters = [p for p in (ref() for ref in refs) if p is not None]
        reached = notes.get("reached", set()) | _watch.stop_results(notes)
        if "idle" not in notes:
            _report_unreached(_still_waiting(notes), parameters, reached, notes["told"], True)
        _close(notes)
    _watch.forget()


def forget() -> None:
    """Starts afresh."""
    for notes, _ in list(_open.values()):
        _watch.stop_results(notes)
    _open.clear()
    _idle.clear()
    _first_lines.clear()
    _watch.forget()


def _first_step(notes: dict[str, Any], parameters: list[Any]) -> int:
    never = _without_gradient(parameters)
    trained = [p for p in parameters if p.requires_grad]
    if not never and (not trained or any(_is_given(p.grad) for p in trained)):
        return _close(notes)
    if len(never) == len(trained) or not never:  # nothing at all to step with
        notes["idle"] = _watch.Arrivals(trained)
    notes["never"] = never
    notes["since"] = _watch.begin_cuts()
    _open[id(notes)] = (notes, [weakref.ref(p) for p in parameters if id(p) in never])
    return 0


def _close(notes: dict[str, Any]) -> int:
    notes["done"] = True
    notes.pop("kept", None)
    if "idle" in notes:
        notes.pop("idle").stop()
    _open.pop(id(notes), None)
    _watch.stop_results(notes)
    if "turns" in notes:
        notes.pop("turns").stop()
    return _FOR_GOOD


def _still_waiting(notes: dict[str, Any]) -> set[int]:
    never: set[int] = notes["never"]
    return never & notes["turns"].waiting if "turns" in notes else never


def _without_gradient(parameters: list[Any]) -> set[int]:
    return {id(p) for p in parameters if p.requires_grad and p.grad is None}


def _is_given(gradient: Any) -> bool:
    """Whether it is more than the zeros of a ``zero_grad()``; what is not computed yet is."""
    return _core._is_pending(gradient) or bool(gradient.any())


def _judge_idle(notes: dict[str, Any], parameters: list[Any]) -> bool:
    """Whether the gradients of the second step, too, had been cleared; asked once."""
    arrivals = notes.pop("idle")
    line = arrivals.cleared_at
    arrivals.stop()
    if line is None or any(p.grad is not None and _is_given(p.grad) for p in parameters):
        notes["told"] = 1
        _judge(notes, parameters)
        return "done" in notes
    _watch.cuts_since(notes.pop("since"))
    _close(notes)
    _idle.update(id(p) for p in parameters)
    report(
        "step-without-gradients",
        "the gradients of this step were computed, and then cleared before the step",
        cause=line,
        symptom=calling_line(),
        step=_core._step_number(),
        cure="call zero_grad() before backward(), or after the step",
    )
    return True


# -- cuts -----------------------------------------------------------------------------------------


def _explain(never: set[int], parameters: list[Any], cuts: list[tuple[str, Any, Any]]) -> set[int]:
    """Reports the cuts that parameters were lost at; returns the parameters still unexplained."""
    modules = _names.all_modules()
    left = set(never)
    by_line: dict[tuple[Line, str], tuple[list[Any], str, Any]] = {}
    # A value that went on into the graph says more than one that was only looked at.
    for name, mark, source in sorted(cuts, key=lambda cut: not cut[1]._feeds_recorded):
        if mark.site is None or not left:
            continue
        lost = _leaves(source) & left
        if not lost:
            continue
        left -= lost
        line, block = _place(name, mark)
        found, _, _ = by_line.setdefault((line, block), ([], name, mark))
        found += [p for p in parameters if id(p) in lost]
    for (line, block), (found, name, mark) in by_line.items():
        # Of several inputs one is followed: what stands beside it was lost at the same place.
        owners = [owned[0] for p in found if (owned := _names.owner_of(p, modules))]
        beside = {id(p) for owner in owners for p in owner._parameters.values() if p is not None}
        found += [p for p in parameters if id(p) in beside & left]
        left -= beside
        names = [_names.parameter_name(p, modules) for p in found]
        report(
            "broken-chain",
            f"{_described(name)} cut the loss off from {_names.listed(names)}{block}",
            cause=line,
            symptom=calling_line(),
            module=_names.module_path(mark.scope),
            step=_core._step_number(),
            cure=_cure(name),
        )
    return left


def _place(name: str, mark: Any) -> tuple[Line, str]:
    """The line to name for a cut, and the block without gradient that it stands in.

    In a block it is the first line that was met there; if the block is in a module further out, the
    line there that uses the module whose code ran.
    """
    line: Line = mark.site[:2]
    if not name.endswith(" under no_grad"):
        return line, ""
    block = _source.block_without_gradient(line)
    if block is None:
        scope = [module for module in mark.scope if module is not None]
        for outer, inner in itertools.pairwise(scope):
            path = _names.path_in(outer, inner)
            forward = getattr(type(outer), "forward", None)
            use = path and _source.use_without_gradient(forward, path.partition(".")[0])
            if use:
                line, block = use, _source.block_without_gradient(use)
                break
    if block is None:
        return line, ""
    key = (block, mark.scope[0] if mark.scope else None)
    first = _first_lines.setdefault(key, line)
    return first, f", in the block without gradient at line {block[1]}"


_first_lines: dict[Any, Line] = {}


def _leaves(source: Any) -> set[int]:
    """The parameters that a node's history reaches."""
    found: set[int] = set()
    seen = {source}
    waiting = [source]
    while waiting:
        node = waiting.pop()
        variable = getattr(node, "variable", None)
        if variable is not None:
            found.add(id(variable))
        for producer, _ in node.next_functions:
            if producer is not None and producer not in seen:
                seen.add(producer)
                waiting.append(producer)
    return found


# -- never reached --------------------------------------------------------------------------------


def _roots_of(never: set[int], parameters: list[Any]) -> list[Any]:
    roots = _names.roots(_names.all_modules())
    missing = [p for p in parameters if id(p) in never]
    return [root for root in roots if {id(p) for p in root.parameters()} & {id(p) for p in missing}]


def _report_unreached(
    never: set[int],
    parameters: list[Any],
    reached: set[int],
    told: int,
    at_exit: bool = False,
) -> set[int]:
    """Reports those that cannot just be waiting for their turn; returns the others."""
    modules = _names.all_modules()
    patient: set[int] = set()
    groups: dict[tuple[str, Line | None], list[str]] = {}
    explained = any(
        finding.kind in ("unoptimised-parameters", "broken-chain") for finding in findings()
    )
    for p in parameters:
        if id(p) not in never:
            continue
        where, line, may_wait, called = _situation(p, modules)
        waiting = (may_wait or id(p) in reached) and told == 3 and not at_exit
        if waiting:
            patient.add(id(p))
        elif at_exit and ((may_wait and called is False) or (told == 1 and called)):
            continue  # a branch that was not taken; one step, in which it was not yet looked for
        elif called is None and explained:
            continue  # left behind by what has been told already
        else:
            groups.setdefault((where, line), []).append(_names.parameter_name(p, modules))
    for (where, line), names in groups.items():
        report(
            "unreached-parameters",
            f"{_names.listed(names)} {'has' if len(names) == 1 else 'have'} had no gradient up to "
            f"step {_core._step_number()}: {where}",
            cause=line,
            symptom=calling_line(),
            module=names[0].rpartition(".")[0] or None,
            step=_core._step_number(),
            cure="use it in the loss, or take it out of the model and the optimizer",
        )
    return patient


def _situation(parameter: Any, modules: list[Any]) -> tuple[str, Line | None, bool, bool | None]:
    """Why a parameter has no gradient, where it was made, whether its turn may still come, and
    whether its module is called (None if it belongs to none)."""
    owned = _names.owner_of(parameter, modules)
    if owned is None:
        return "nothing computed from it reaches the loss", None, True, None
    owner, name = owned
    if _core._was_called(owner):
        line = _names.made_at(owner, name, modules)
        return "what was computed from it does not reach the loss", line, False, True
    child, attribute, holder = owner, name, owner
    while True:  # the attribute of the user's class that all this stands behind
        line = _names.assignment_line(holder, attribute)
        if line is not None or (above := _names.container_of(child, modules)) is None:
            break
        holder, attribute = above
        child = holder
    if line is None:  # layers that stand in no class of the user's
        return "the module is never called", None, True, False if owner is not holder else None
    if _names.mentions(holder, attribute):
        return "the module is never called", line, True, False
    return f"nothing but the constructor uses self.{attribute}", line, False, False


# -- words ----------------------------------------------------------------------------------------


def _described(name: str) -> str:
    operation, _, mode = name.partition(" ")
    if mode:
        return f"{operation} {mode}"
    return {"data": ".data", "item": "turning it into a number, a list or an array"}.get(
        operation, f"{operation}()"
    )


def _cure(name: str) -> str:
    operation, _, mode = name.partition(" ")
    if mode:
        return "move the line out of the no_grad() block"
    return _CURES.get(operation, f"{operation}() has no derivative: compute the loss without it")

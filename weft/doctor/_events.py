"""What the core notices, and what follows from it; called from bind/doctor.cpp."""

from __future__ import annotations

from typing import Any

from weft import _core
from weft._callers import Line, calling_line
from weft.doctor import _broadcasts, _chains, _modes, _parameters
from weft.doctor._findings import report
from weft.doctor._lifetime import judge_at_exit
from weft.doctor._names import all_modules, parameter_name

_Site = tuple[str, int, str]


def _line(site: _Site | None) -> Line | None:
    return None if site is None else site[:2]


def stale_gradient(parameter: Any, cause: _Site | None, symptom: _Site | None) -> None:
    """A step used a gradient that an earlier step had used already."""
    if _chains.steps_are_idle(parameter):
        return  # what was used were the zeros of a zero_grad() in the wrong place
    name = parameter_name(parameter, all_modules())
    report(
        "stale-gradients",
        f"the gradient of {name} was used by this step and then added to by another backward; the "
        "next step has used the sum",
        cause=_line(cause),
        symptom=_line(symptom),
        module=name,
        step=_core._step_number(),
        cure="call optimizer.zero_grad() once per step, before backward()",
    )


def suspicious_broadcast(node: Any) -> None:
    """The loss was made by an operation that blew both of its arguments up."""
    _broadcasts.found_in_graph(node)


def loss_sizes(prediction: Any, target: Any) -> None:
    """A loss of the library was given arguments of different shapes."""
    _broadcasts.found_by_loss(prediction, target)


def no_history(root: Any) -> None:
    """Backward was asked for where there is no history; the error that follows says so too."""
    _chains.no_history(root)


def unoptimised_leaf(parameter: Any) -> None:
    """The first gradient of a leaf that belongs to no optimizer."""
    judge_at_exit()
    _parameters.met_unoptimised(parameter)


def mode_mismatch(module: Any, result: Any) -> bool:
    """An outermost module was called in a mode that does not match the gradient mode."""
    judge_at_exit()
    return _modes.mismatch(module, result, calling_line())


def step(notes: dict[str, Any], parameters: list[Any]) -> int:
    """An optimizer has stepped. Returns for how many steps it need not be told again."""
    parameters = [p for p in parameters if p.is_leaf]  # others have no gradient to be asked for
    judge_at_exit()
    _modes.at_step(parameters)
    pending = _parameters.at_step(parameters)
    asleep = _chains.at_step(notes, parameters)
    return 0 if pending else asleep

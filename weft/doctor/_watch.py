"""What is looked at more closely for a step or two, once something is missing.

Nothing here runs in a healthy program: tracing, hooks and the listening to ``zero_grad()`` are
taken away again as soon as they have told what they were asked.
"""

from __future__ import annotations

import weakref
from typing import Any

from weft import _core
from weft._callers import Line, calling_line

# -- cuts: listed while anybody asks --------------------------------------------------------------

_cuts: list[tuple[str, Any, Any]] = []  # name, mark, the node whose history ended there
_asking = 0


def begin_cuts() -> int:
    """From now on cuts are listed; returns where the list of this asker begins."""
    global _asking
    _asking += 1
    _cuts.extend(_core._take_traced_cuts())
    _core._set_trace_cuts(True)
    return len(_cuts)


def cuts_since(start: int) -> list[tuple[str, Any, Any]]:
    """What was cut since ``begin_cuts()`` returned this number; ends that asker's interest."""
    global _asking
    _asking -= 1
    _cuts.extend(_core._take_traced_cuts())
    since = _cuts[start:]
    if _asking <= 0:
        forget()
    return since


def forget() -> None:
    """Nobody asks any more."""
    global _asking
    _asking = 0
    _core._set_trace_cuts(False)
    _core._take_traced_cuts()
    _cuts.clear()


# -- results: which parameters a model's caller still holds the history of ------------------------


def results_of(roots: list[Any]) -> Any:
    """Looks at what these models return, until ``stop_results``."""
    from weft.doctor._chains import _leaves

    reached: set[int] = set()

    def note(module: Any, arguments: Any, result: Any) -> None:
        for node in _nodes(result):
            reached.update(_leaves(node))

    return reached, [root.register_forward_hook(note) for root in roots]


def stop_results(notes: dict[str, Any]) -> set[int]:
    """Ends what ``results_of`` began, and returns the parameters that were reached."""
    if "returned" not in notes:
        return set()
    reached, hooks = notes.pop("returned")
    for hook in hooks:
        hook.remove()
    return set(reached)


def _nodes(result: Any) -> list[Any]:
    if isinstance(result, _core.Tensor):
        return [result.grad_fn] if result.requires_grad and result.grad_fn is not None else []
    if isinstance(result, dict):
        result = list(result.values())
    elif hasattr(result, "__dict__"):
        result = list(vars(result).values())
    if isinstance(result, (list, tuple)):
        return [node for item in result for node in _nodes(item)]
    return []


class Turns:
    """Which parameters are still waiting for their first gradient."""

    def __init__(self, waiting: set[int], parameters: list[Any]) -> None:
        self.waiting = set(waiting)
        self._hooks = {
            id(p): p.register_post_accumulate_grad_hook(self._arrive)
            for p in parameters
            if id(p) in waiting
        }

    def _arrive(self, parameter: Any) -> None:
        self.waiting.discard(id(parameter))
        hook = self._hooks.pop(id(parameter), None)
        if hook is not None:
            hook.remove()

    def stop(self) -> None:
        """No more of it."""
        for hook in self._hooks.values():
            hook.remove()
        self._hooks.clear()


# -- gradients that arrive and are cleared again --------------------------------------------------


class Arrivals:
    """Notes whether gradients arrive, and who calls ``zero_grad()`` after that."""

    def __init__(self, parameters: list[Any]) -> None:
        self.cleared_at: Line | None = None
        self._arrived = False
        self._hooks = [p.register_post_accumulate_grad_hook(self._arrive) for p in parameters[:1]]
        _listening[id(self)] = self
        _listen()

    def _arrive(self, parameter: Any) -> None:
        self._arrived = True
        self.cleared_at = None

    def cleared(self, line: Line | None) -> None:
        """Somebody has called ``zero_grad()``."""
        if self._arrived:
            self.cleared_at = line

    def stop(self) -> None:
        """No more of it."""
        for hook in self._hooks:
            hook.remove()
        _listening.pop(id(self), None)
        if not _listening:
            _stop_listening()


_listening: weakref.WeakValueDictionary[int, Arrivals] = weakref.WeakValueDictionary()
_original: list[tuple[type, Any]] = []


def _listen() -> None:
    if _original:
        return
    from weft.nn.modules.module import Module
    from weft.optim.optimizer import Optimizer

    for cls in (Module, Optimizer):
        _original.append((cls, cls.zero_grad))
        cls.zero_grad = _noting(cls.zero_grad)  # type: ignore[method-assign]


def _noting(zero_grad: Any) -> Any:
    def noting_zero_grad(self: Any, set_to_none: bool = True) -> None:
        zero_grad(self, set_to_none)
        line = calling_line()
        for arrivals in list(_listening.values()):
            arrivals.cleared(line)

    return noting_zero_grad


def _stop_listening() -> None:
    for cls, zero_grad in _original:
        cls.zero_grad = zero_grad  # type: ignore[attr-defined]
    _original.clear()

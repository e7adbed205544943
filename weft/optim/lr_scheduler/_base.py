"""What all schedules share: when they change rates, and what they save."""

from __future__ import annotations

import functools
import sys
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from weft import _core
from weft.optim.optimizer import Optimizer

Tensor = _core.Tensor

EPOCH_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated "
    "where possible. Please use `scheduler.step()` to step the scheduler. If epoch is different "
    "from None, the closed form is used instead of the chainable form, where available."
)


# -- options of parameter groups -------------------------------------------------------------------


def copied(value: Any) -> Any:
    """A value of a group that later steps do not change."""
    return value.clone() if isinstance(value, Tensor) else value


def group_values(optimizer: Optimizer, key: str) -> list[Any]:
    return [copied(group[key]) for group in optimizer.param_groups]


def set_group_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Sets an option; a tensor stays the same tensor."""
    if isinstance(group[key], Tensor):
        group[key].fill_(float(value))
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value for each group, from a list of them or from one for all."""
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        value = [value] * count
    elif len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {count}."
        )
    return [copied(item) for item in value]


def check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


# -- warnings -------------------------------------------------------------------------------------


def warn(message: str) -> None:
    """Warns at the first line outside weft.optim."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("weft.optim"):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)


def _note_steps(optimizer: Any) -> None:
    """Lets the optimiser remember that it has made a step: a schedule must not come before it."""
    step = optimizer.step
    if hasattr(step, "_wrapped_by_lr_sched"):
        return
    # The optimiser owns the new step, which must not own the optimiser.
    owner = weakref.ref(optimizer)
    function = getattr(step, "__func__", None) or (lambda _, *args, **kwargs: step(*args, **kwargs))

    @functools.wraps(function)
    def noted_step(*args: Any, **kwargs: Any) -> Any:
        self: Any = owner()
        self._opt_called = True
        return function(self, *args, **kwargs)

    noted_step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = noted_step


class LRScheduler:
    """Base class of all schedules: changes the learning rates of an optimiser from step to step.

    A subclass writes ``get_lr``, which gives the rates for ``self.last_epoch``, one for each group.
    It starts from the current rates where it can, so that several schedules can act together.
    ``last_epoch`` is where training is resumed; -1 begins it.

    >>> scheduler = weft.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    >>> for epoch in range(100):
    ...     train(...)
    ...     scheduler.step()  # after the optimiser's steps
    """

    _get_lr_called_within_step = False
    _is_initial = False
    optimizer: Optimizer
    _last_lr: list[Any]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for index, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{index}] when resuming "
                    "scheduler with last_epoch >= 0. Load the optimizer's state dict before, or "
                    "leave last_epoch at -1 to begin anew."
                )
        self.base_lrs = group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _note_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_last_lr(self) -> list[Any]:
        """The learning rates that the last step has set."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The learning rates for ``self.last_epoch``; called by ``step`` only."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Goes on by one (or, as was usual once, to the epoch given) and sets the rates."""
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warn(EPOCH_WARNING)
        self._update_lr(epoch)

    def _check_order(self) -> None:
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                "initialization. Please, make sure to call `optimizer.step()` before "
                "`lr_scheduler.step()`."
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. You should call "
                "them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`. "
                "Failure to do this will result in skipping the first value of the learning rate "
                "schedule."
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        if epoch is None:
            self.last_epoch += 1
            self._set_rates(self.get_lr)
        else:
            self.last_epoch = epoch
            self._set_rates(getattr(self, "_get_closed_form_lr", self.get_lr))

    def _set_rates(self, rates: Callable[[], list[Any]]) -> None:
        self._get_lr_called_within_step = True
        try:
            values = rates()
        finally:
            self._get_lr_called_within_step = False
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            set_group_value(group, "lr", value)
        self._last_lr = group_values(self.optimizer, "lr")

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`."
            )

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser, which has a state dict of its own."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from what ``state_dict()`` gave."""
        self.__dict__.update(state_dict)


class _LRScheduler(LRScheduler):
    """The base class by the name it once had."""

"""Schedules that go up and down: restarts, cycles, one cycle."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any, Literal

from weft.optim.lr_scheduler._base import (
    LRScheduler,
    check_optimizer,
    per_group,
    set_group_value,
)
from weft.optim.optimizer import Optimizer


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value > 0


def _is_share(value: Any) -> bool:
    return isinstance(value, float) and 0 <= value <= 1


def _check_positive(name: str, value: Any) -> None:
    if not _is_count(value):
        raise ValueError(f"Expected positive integer {name}, but got {value}")


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down to ``eta_min`` along a half wave of the cosine, then back to the first rate at once.

    The first wave takes ``T_0`` steps, each further one ``T_mult`` times as many as the one before.
    ``step`` may be given fractions of an epoch.

    >>> scheduler = CosineAnnealingWarmRestarts(optimizer, T_0=10, T_mult=2)
    >>> scheduler.step(epoch + batch / batches)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        _check_positive("T_0", T_0)
        if not _is_count(T_mult):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base_lr - self.eta_min) * share for base_lr in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Goes on by one, or to an epoch, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        elif epoch < self.T_0:
            self.T_i = self.T_0
            self.T_cur = epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            # The lengths of the waves are a geometric series.
            waves = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            growth = self.T_mult**waves
            self.T_cur = epoch - self.T_0 * (growth - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * growth
        self.last_epoch = math.floor(epoch)
        self._set_rates(self.get_lr)


# -- momentum that goes the other way ------------------------------------------------------------


def _begin_momentum(optimizer: Optimizer, highest: list[Any], lowest: list[Any]) -> None:
    """Every group starts with the highest momentum, and remembers both ends."""
    for group, high, low in zip(optimizer.param_groups, highest, lowest, strict=True):
        _set_momentum(group, high, "betas" in optimizer.defaults)
        group["max_momentum"] = high
        group["base_momentum"] = low


def _set_momentum(group: dict[str, Any], momentum: Any, as_beta: bool) -> None:
    if as_beta:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


def _check_momentum(optimizer: Optimizer) -> None:
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        )


class CyclicLR(LRScheduler):
    """Up from ``base_lr`` to ``max_lr`` and down again, over and over; one step per batch.

    The height of the cycles stays (``mode="triangular"``), is halved each time (``"triangular2"``)
    or shrinks by ``gamma`` with every step (``"exp_range"``); or ``scale_fn`` gives it, for the
    number of the cycle or, with ``scale_mode="iterations"``, of the step. Momentum goes the other
    way between ``max_momentum`` and ``base_momentum``.

    >>> scheduler = CyclicLR(optimizer, base_lr=0.01, max_lr=0.1, step_size_up=500)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs, strict=True):
                set_group_value(group, "lr", lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            _check_momentum(optimizer)
            self.use_beta1 = "betas" in optimizer.defaults
            self.base_momentums = per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = per_group("max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                _begin_momentum(optimizer, self.max_momentums, self.base_momentums)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The height of a cycle, as a share of the first one's."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return float(1 / 2.0 ** (x - 1))
        return float(self.gamma**x) if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        rising = x <= self.step_ratio
        position = x / self.step_ratio if rising else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            groups = self.optimizer.param_groups
            ends = zip(groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in ends:
                _set_momentum(group, high - (high - low) * position * scale, self.use_beta1)
        pairs = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * position * scale for low, high in pairs]

    def state_dict(self) -> dict[str, Any]:
        """As of every schedule. Functions are not saved; of callable objects the attributes are."""
        state = super().state_dict()
        scale_fn = self._scale_fn_custom
        plain = scale_fn is None or isinstance(scale_fn, types.FunctionType)
        state["_scale_fn_custom"] = None if plain else scale_fn.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from what ``state_dict()`` gave, with the function that is here."""
        name = "_scale_fn_custom"
        super().load_state_dict({key: state_dict[key] for key in state_dict if key != name})
        if state_dict.get(name) is not None:
            self._scale_fn_custom.__dict__.update(state_dict[name])


class OneCycleLR(LRScheduler):
    """One rise to ``max_lr``, then one long fall far below the start; one step per batch.

    The cycle takes ``total_steps``, or ``epochs * steps_per_epoch``; ``pct_start`` of it rises. It
    starts at ``max_lr / div_factor`` and ends at that divided by ``final_div_factor``. With
    ``three_phase`` it falls as fast as it rose, and then vanishes. Momentum goes the other way.

    >>> scheduler = OneCycleLR(optimizer, max_lr=0.1, epochs=10, steps_per_epoch=len(loader))
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if not _is_share(pct_start):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._schedule_phases = _phases(float(pct_start * self.total_steps), three_phase)
        self._schedule_phases[-1]["end_step"] = self.total_steps - 1
        self._anneal_func_type = anneal_strategy
        if last_epoch == -1:
            highest = per_group("max_lr", optimizer, max_lr)
            for group, high in zip(optimizer.param_groups, highest, strict=True):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            _check_momentum(optimizer)
            self.use_beta1 = "betas" in optimizer.defaults
            highest = per_group("max_momentum", optimizer, max_momentum)
            lowest = per_group("base_momentum", optimizer, base_momentum)
            if last_epoch == -1:
                _begin_momentum(optimizer, highest, lowest)
        super().__init__(optimizer, last_epoch)

    def _between(self, start: Any, end: Any, share: float) -> Any:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)
        return (end - start) * share + start

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        start = 0.0
        for phase in self._schedule_phases:
            end = phase["end_step"]
            if step <= end or phase is self._schedule_phases[-1]:
                break
            start = end
        share = (step - start) / (end - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(group, self._between(*ends, share), self.use_beta1)
        return rates


def _total_steps(total: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total is not None:
        _check_positive("total_steps", total)
        return total
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    _check_positive("epochs", epochs)
    _check_positive("steps_per_epoch", steps_per_epoch)
    return epochs * steps_per_epoch


def _phases(rise: float, three_phase: bool) -> list[dict[str, Any]]:
    """From where to where each phase goes, by the names under which the groups keep the values."""

    def phase(end: float, rates: tuple[str, str], momenta: tuple[str, str]) -> dict[str, Any]:
        return {
            "end_step": end,
            "start_lr": rates[0],
            "end_lr": rates[1],
            "start_momentum": momenta[0],
            "end_momentum": momenta[1],
        }

    low, high = "base_momentum", "max_momentum"
    up = phase(rise - 1, ("initial_lr", "max_lr"), (high, low))
    if not three_phase:
        return [up, phase(math.inf, ("max_lr", "min_lr"), (low, high))]
    down = phase(2 * rise - 2, ("max_lr", "initial_lr"), (low, high))
    return [up, down, phase(math.inf, ("initial_lr", "min_lr"), (high, high))]

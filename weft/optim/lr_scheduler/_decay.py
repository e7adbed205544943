"""Schedules that follow one formula from the first step to the last."""

from __future__ import annotations

import math
import types
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from weft.optim.lr_scheduler._base import LRScheduler, group_values
from weft.optim.optimizer import Optimizer

Rule = Callable[[int], float]


class MultiplyingScheduler(LRScheduler):
    """A schedule that multiplies every rate by the same number at each step."""

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        factor = self._factor()
        if factor is None:
            return group_values(self.optimizer, "lr")
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _get_closed_form_lr(self) -> list[Any]:
        share = self._share()
        return [base_lr * share for base_lr in self.base_lrs]

    def _factor(self) -> float | None:
        """By how much the rate changes on the way to ``last_epoch``; None: it stays."""
        raise NotImplementedError

    def _share(self) -> float:
        """Which part of its first value the rate has at ``last_epoch``."""
        raise NotImplementedError


# -- functions of the user's own -------------------------------------------------------------------


class _UserScheduler(LRScheduler):
    """A schedule with a function for each group."""

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Rule | list[Rule], last_epoch: int = -1
    ) -> None:
        groups = len(optimizer.param_groups)
        rules = list(lr_lambda) if isinstance(lr_lambda, list | tuple) else [lr_lambda] * groups
        if len(rules) != groups:
            raise ValueError(f"Expected {groups} lr_lambdas, but got {len(rules)}")
        for rule in rules:
            if not callable(rule):
                raise TypeError(f"lr_lambda should be a function, but got {type(rule).__name__}")
        self.lr_lambdas = rules
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """As of every schedule. Functions are not saved; of callable objects the attributes are."""
        state = super().state_dict()
        state["lr_lambdas"] = [
            None if isinstance(rule, types.FunctionType) else rule.__dict__.copy()
            for rule in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from what ``state_dict()`` gave, with the functions that are here."""
        saved = {key: value for key, value in state_dict.items() if key != "lr_lambdas"}
        super().load_state_dict(saved)
        for rule, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if attributes is not None:
                rule.__dict__.update(attributes)


class LambdaLR(_UserScheduler):
    """The first rate times ``lr_lambda(epoch)``; a list gives one function for each group.

    >>> scheduler = LambdaLR(optimizer, lr_lambda=lambda epoch: 0.95**epoch)
    """

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        pairs = zip(self.lr_lambdas, self.base_lrs, strict=True)
        return [base_lr * rule(self.last_epoch) for rule, base_lr in pairs]


class MultiplicativeLR(_UserScheduler):
    """The current rate times ``lr_lambda(epoch)``, at every step.

    >>> scheduler = MultiplicativeLR(optimizer, lr_lambda=lambda epoch: 0.95)
    """

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self._is_initial:
            return group_values(self.optimizer, "lr")
        pairs = zip(self.lr_lambdas, self.optimizer.param_groups, strict=True)
        return [group["lr"] * rule(self.last_epoch) for rule, group in pairs]


# -- formulas -------------------------------------------------------------------------------------


class StepLR(MultiplyingScheduler):
    """Multiplies the rate by ``gamma`` every ``step_size`` steps.

    >>> scheduler = StepLR(optimizer, step_size=30, gamma=0.1)
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        return None if self.last_epoch == 0 or self.last_epoch % self.step_size else self.gamma

    def _share(self) -> float:
        return float(self.gamma ** (self.last_epoch // self.step_size))


class MultiStepLR(MultiplyingScheduler):
    """Multiplies the rate by ``gamma`` at each of the ``milestones``.

    >>> scheduler = MultiStepLR(optimizer, milestones=[30, 80], gamma=0.1)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        times = self.milestones.get(self.last_epoch)
        return None if times is None else float(self.gamma**times)

    def _share(self) -> float:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return float(self.gamma**passed)


class ConstantLR(MultiplyingScheduler):
    """The rate times ``factor`` for the first ``total_iters`` steps, then the rate itself.

    >>> scheduler = ConstantLR(optimizer, factor=0.5, total_iters=4)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        if self.last_epoch == 0:
            return self.factor
        return 1.0 / self.factor if self.last_epoch == self.total_iters else None

    def _share(self) -> float:
        return 1.0 if self.last_epoch >= self.total_iters else self.factor


class LinearLR(MultiplyingScheduler):
    """From ``start_factor`` to ``end_factor`` of the rate in ``total_iters`` equal steps.

    >>> scheduler = LinearLR(optimizer, start_factor=0.05, total_iters=10)  # a warm-up
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        if self.last_epoch == 0:
            return self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return None
        change = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * change
        return 1.0 + change / before

    def _share(self) -> float:
        change = self.end_factor - self.start_factor
        done = min(self.total_iters, self.last_epoch)
        return self.start_factor + change * done / self.total_iters


class ExponentialLR(MultiplyingScheduler):
    """Multiplies the rate by ``gamma`` at every step.

    >>> scheduler = ExponentialLR(optimizer, gamma=0.95)
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        return None if self._is_initial else self.gamma

    def _share(self) -> float:
        return float(self.gamma**self.last_epoch)


class PolynomialLR(MultiplyingScheduler):
    """Down to zero in ``total_iters`` steps, along a polynomial of degree ``power``.

    >>> scheduler = PolynomialLR(optimizer, total_iters=100, power=0.9)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _left(self, epoch: int) -> float:
        return 1.0 - epoch / self.total_iters

    def _factor(self) -> float | None:
        if self._is_initial or self.last_epoch > self.total_iters:
            return None
        return float((self._left(self.last_epoch) / self._left(self.last_epoch - 1)) ** self.power)

    def _share(self) -> float:
        return float(self._left(min(self.total_iters, self.last_epoch)) ** self.power)


class CosineAnnealingLR(LRScheduler):
    """Down to ``eta_min`` in ``T_max`` steps along a half wave of the cosine, and up again.

    >>> scheduler = CosineAnnealingLR(optimizer, T_max=100)
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _height(self, epoch: int) -> float:
        return 1 + math.cos(math.pi * epoch / self.T_max)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self._is_initial:
            return group_values(self.optimizer, "lr")
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        groups, low = self.optimizer.param_groups, self.eta_min
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # From the bottom of the wave no ratio leads up.
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            pairs = zip(groups, self.base_lrs, strict=True)
            return [group["lr"] + (base_lr - low) * rise for group, base_lr in pairs]
        ratio = self._height(self.last_epoch) / self._height(self.last_epoch - 1)
        return [ratio * (group["lr"] - low) + low for group in groups]

    def _get_closed_form_lr(self) -> list[Any]:
        share = self._height(self.last_epoch) / 2
        return [self.eta_min + (base_lr - self.eta_min) * share for base_lr in self.base_lrs]

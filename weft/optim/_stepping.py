"""Optimisers whose step treats every element alike: one call of the core per group of parameters.

Note [Two ways to take a step]
The arithmetic of a step stands in core/math/optimiser.h, and that is what runs. With
``differentiable=True`` the step itself becomes part of the graph (for learning a learning rate,
say); then it is composed of recorded operations, in each optimiser's ``_composed_step``. The tests
hold the two to the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from weft import _core
from weft.autograd import enable_grad, set_grad_enabled
from weft.optim.optimizer import Optimizer

Tensor = _core.Tensor
_zeros_like: Any = _core.ops["zeros_like"]


class ElementwiseOptimizer(Optimizer):
    """An optimiser with a rule in the core. What a subclass writes stands below ``step``."""

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self._updaters: list[Any] = []
        super().__init__(params, defaults)
        if defaults.get("fused"):
            if defaults["differentiable"]:
                raise RuntimeError("`fused` does not support `differentiable`")
            if defaults["foreach"]:
                raise RuntimeError("`fused` and `foreach` cannot be `True` together.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._updaters = []
        for group in self.param_groups:
            for name, value in self.defaults.items():  # those that were not saved
                group.setdefault(name, value)
            for param in group["params"]:
                kept = self.state.get(param)
                if kept and "step" in kept and not isinstance(kept["step"], Tensor):
                    kept["step"] = number(float(kept["step"]))

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient.

        ``closure``, if given, is called first: it computes the loss and its gradients, and returns
        the loss, which becomes the result.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if self.defaults["differentiable"]:
            self._step_in_graph()
            self._tell_doctor()
            return loss
        groups, updaters = self.param_groups, self._updaters
        while len(updaters) < len(groups):
            updaters.append(_core._Updater())
        states = self.state
        for group, updater in zip(groups, updaters, strict=False):
            rule, numbers = self._rule(group)
            new = updater.step(rule, group["params"], states, numbers)
            if new is not None:
                for param in new:
                    self._init_state(param, states[param], group)
                if updater.step(rule, group["params"], states, numbers) is not None:
                    raise RuntimeError(f"{type(self).__name__}: the state of a parameter is lost")
        return loss

    def _step_in_graph(self) -> None:
        with set_grad_enabled(True):
            for group in self.param_groups:
                for param in group["params"]:
                    grad = param._grad  # `.grad` warns about parameters that are computed
                    if grad is None:
                        continue
                    state = self.state.get(param, {})
                    fresh = not state
                    with set_grad_enabled(False):
                        self._init_state(param, state, group)
                    if state:
                        self.state[param] = state
                    if group["maximize"]:
                        grad = -grad
                    self._composed_step(param, grad, state, group, fresh)

    def _rule(self, group: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        """The rule in the core for a group, and its numbers in the rule's order."""
        raise NotImplementedError

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Gives a parameter what is still missing of its state."""
        raise NotImplementedError

    def _composed_step(
        self, param: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], fresh: bool
    ) -> None:
        """The same step in recorded operations. States are exchanged for new tensors, because the
        graph still needs the old ones."""
        raise NotImplementedError


class MatrixOptimizer(Optimizer):
    """An optimiser whose step looks at a parameter as a whole, in operations on tensors."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self.defaults.items():  # those that were not saved
                group.setdefault(name, value)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient; as of all optimisers."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with set_grad_enabled(False):
            for group in self.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        self._update(param, param.grad.detach(), self.state[param], group)
        return loss

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Changes one parameter and its state; nothing is recorded."""
        raise NotImplementedError


# -- state ----------------------------------------------------------------------------------------


def number(value: float) -> Any:
    """A number beside a parameter, such as its count of steps."""
    double = _core.get_default_dtype() is _core.float64
    return _core.tensor(value, dtype=_core.float64 if double else _core.float32)


def add_numbers(state: dict[str, Any], **values: float) -> None:
    """Numbers that are not in the state yet."""
    for name, value in values.items():
        known = state.get(name)
        if not isinstance(known, Tensor):
            state[name] = number(float(value if known is None else known))


def add_zeros(state: dict[str, Any], param: Any, *names: str) -> None:
    """Tensors of zeros like the parameter, where the state has none."""
    for name in names:
        if state.get(name) is None:
            state[name] = _zeros_like(param.detach())


def count_step(state: dict[str, Any]) -> float:
    """One step more: the number of this one."""
    state["step"] = state["step"].detach() + 1
    return float(state["step"])


# -- arithmetic of composed steps -----------------------------------------------------------------


def penalised(grad: Any, param: Any, weight_decay: Any) -> Any:
    """The gradient of the loss with a penalty on the size of the parameter."""
    if not isinstance(weight_decay, Tensor) and weight_decay == 0:
        return grad
    return grad + weight_decay * param.clone()


def decayed(grad: Any, param: Any, group: dict[str, Any]) -> Any:
    """Weight decay, in the gradient or (decoupled) of the parameter itself: the gradient to use."""
    if not group["decoupled_weight_decay"]:
        return penalised(grad, param, group["weight_decay"])
    param.mul_(1 - group["lr"] * group["weight_decay"])
    return grad


def moved(average: Any, value: Any, weight: Any) -> Any:
    """A running average, moved towards a value."""
    return average + weight * (value - average)


# -- checks ---------------------------------------------------------------------------------------


def check_one_element(lr: Any) -> None:
    """Refuses a tensor of several learning rates."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError(f"Tensor lr must be 1-element, but it has {lr.numel()} elements")


def check_lr(lr: Any) -> None:
    """Refuses a learning rate that is negative, or a tensor of several."""
    check_one_element(lr)
    if not lr >= 0.0:
        raise ValueError(f"Invalid learning rate: {lr}")


def check_not_negative(**values: Any) -> None:
    """Refuses negative numbers and NaN."""
    for name, value in values.items():
        if not value >= 0.0:
            raise ValueError(f"Invalid {name} value: {value}")


def check_betas(betas: Iterable[Any]) -> None:
    """Refuses shares that a running average cannot keep."""
    for index, beta in enumerate(betas):
        if isinstance(beta, Tensor) and beta.numel() != 1:
            raise ValueError(f"Tensor betas[{index}] must be 1-element")
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}")

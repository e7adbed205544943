"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from weft import _core
from weft.optim._stepping import (
    ElementwiseOptimizer,
    add_numbers,
    add_zeros,
    check_lr,
    check_not_negative,
    count_step,
    number,
    penalised,
)
from weft.optim.optimizer import ParamsT

_RULE = _core._UpdateRule("asgd", ("step", "eta", "mu"), ("ax",))


class ASGD(ElementwiseOptimizer):
    """Gradient descent that also keeps the average of the parameters from step ``t0`` on.

    The averages stand in ``state[p]["ax"]``. ``lambd`` shrinks the parameters, ``alpha`` says how
    the rate falls.

    >>> optimizer = weft.optim.ASGD(model.parameters(), lr=1e-2, t0=1000)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check_not_negative(weight_decay=weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "lambd": lambd,
                "alpha": alpha,
                "t0": t0,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for param in group["params"]:
                kept = self.state.get(param)
                if kept:
                    add_numbers(kept, eta=float(group["lr"]), mu=1.0)

    def _rule(self, group: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        return _RULE, (
            group["lr"],
            group["lambd"],
            group["alpha"],
            group["t0"],
            group["weight_decay"],
            group["maximize"],
        )

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        add_numbers(state, step=0, eta=float(group["lr"]), mu=1)
        add_zeros(state, param, "ax")

    def _composed_step(
        self, param: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], fresh: bool
    ) -> None:
        eta, mu = float(state["eta"]), float(state["mu"])
        lr, lambd = group["lr"], group["lambd"]
        step = count_step(state)
        grad = penalised(grad, param, group["weight_decay"])
        param.mul_(1 - lambd * eta)
        param.sub_(eta * grad)
        average = state["ax"]
        state["ax"] = param.clone() if mu == 1 else average + (param - average) * mu
        state["eta"] = number(float(lr / (1 + lambd * lr * step) ** group["alpha"]))
        state["mu"] = number(1 / max(1.0, step - group["t0"]))

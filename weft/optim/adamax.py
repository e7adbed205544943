"""Adam with the largest gradient instead of the root mean square."""

from __future__ import annotations

from typing import Any

from weft import _core
from weft.optim._stepping import (
    ElementwiseOptimizer,
    add_numbers,
    add_zeros,
    check_betas,
    check_lr,
    check_not_negative,
    count_step,
    moved,
    penalised,
)
from weft.optim.optimizer import ParamsT

_RULE = _core._UpdateRule("adamax", ("step",), ("exp_avg", "exp_inf"))


class Adamax(ElementwiseOptimizer):
    """Adam that divides by the (slowly forgotten) largest gradient seen.

    >>> optimizer = weft.optim.Adamax(model.parameters(), lr=2e-3)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check_not_negative(epsilon=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _rule(self, group: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        beta1, beta2 = group["betas"]
        return _RULE, (
            group["lr"],
            beta1,
            beta2,
            group["eps"],
            group["weight_decay"],
            group["maximize"],
        )

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        add_numbers(state, step=0)
        add_zeros(state, param, "exp_avg", "exp_inf")

    def _composed_step(
        self, param: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], fresh: bool
    ) -> None:
        beta1, beta2 = group["betas"]
        step = count_step(state)
        grad = penalised(grad, param, group["weight_decay"])
        mean = state["exp_avg"] = moved(state["exp_avg"], grad, 1 - beta1)
        largest = (state["exp_inf"] * beta2).maximum(grad.abs() + group["eps"])
        state["exp_inf"] = largest
        param.sub_(group["lr"] / (1 - beta1**step) * mean / largest)

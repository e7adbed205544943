"""Rectified Adam."""

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
    decayed,
    moved,
)
from weft.optim.optimizer import ParamsT

_RULE = _core._UpdateRule("radam", ("step",), ("exp_avg", "exp_avg_sq"))


class RAdam(ElementwiseOptimizer):
    """Adam that trusts its average of squares only after enough steps: no warm-up is needed.

    >>> optimizer = weft.optim.RAdam(model.parameters(), lr=1e-3)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
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
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "decoupled_weight_decay": decoupled_weight_decay,
                "differentiable": differentiable,
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
            group["decoupled_weight_decay"],
            group["maximize"],
        )

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        add_numbers(state, step=0)
        add_zeros(state, param, "exp_avg", "exp_avg_sq")

    def _composed_step(
        self, param: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], fresh: bool
    ) -> None:
        beta1, beta2 = group["betas"]
        step = count_step(state)
        grad = decayed(grad, param, group)
        mean = state["exp_avg"] = moved(state["exp_avg"], grad, 1 - beta1)
        square = state["exp_avg_sq"] = moved(state["exp_avg_sq"], grad * grad, 1 - beta2)
        update = mean / (1 - beta1**step) * group["lr"]
        bias2 = 1 - beta2**step
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / bias2
        if length > 5:
            ratio = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            update = update * (bias2**0.5 / (square.sqrt() + group["eps"])) * ratio**0.5
        param.sub_(update)

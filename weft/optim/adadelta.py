"""Adadelta."""

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
    moved,
    penalised,
)
from weft.optim.optimizer import ParamsT

_RULE = _core._UpdateRule("adadelta", ("step",), ("square_avg", "acc_delta"))


class Adadelta(ElementwiseOptimizer):
    """Scales the gradient by the ratio of the sizes of recent updates and of recent gradients.

    ``rho`` is the share that both running averages keep; ``lr`` scales the result.

    >>> optimizer = weft.optim.Adadelta(model.parameters())
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_not_negative(epsilon=eps, weight_decay=weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "rho": rho,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "capturable": capturable,
                "foreach": foreach,
                "differentiable": differentiable,
            },
        )

    def _rule(self, group: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        return _RULE, (
            group["lr"],
            group["rho"],
            group["eps"],
            group["weight_decay"],
            group["maximize"],
        )

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        add_numbers(state, step=0)
        add_zeros(state, param, "square_avg", "acc_delta")

    def _composed_step(
        self, param: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], fresh: bool
    ) -> None:
        count_step(state)
        weight, eps = 1 - group["rho"], group["eps"]
        grad = penalised(grad, param, group["weight_decay"])
        square = state["square_avg"] = moved(state["square_avg"], grad * grad, weight)
        update = (state["acc_delta"] + eps).sqrt() / (square + eps).sqrt() * grad
        state["acc_delta"] = moved(state["acc_delta"], update * update, weight)
        param.sub_(group["lr"] * update)

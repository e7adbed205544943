"""RMSprop."""

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

# By (centered, with momentum).
_RULES = {
    (False, False): _core._UpdateRule("rmsprop", ("step",), ("square_avg",)),
    (True, False): _core._UpdateRule("rmsprop_centered", ("step",), ("square_avg", "grad_avg")),
    (False, True): _core._UpdateRule(
        "rmsprop_momentum", ("step",), ("square_avg", "momentum_buffer")
    ),
    (True, True): _core._UpdateRule(
        "rmsprop_centered_momentum", ("step",), ("square_avg", "grad_avg", "momentum_buffer")
    ),
}


class RMSprop(ElementwiseOptimizer):
    """Divides the gradient by a running root mean square of itself.

    ``alpha`` is the share that the average keeps; ``centered`` divides by the standard deviation
    instead; ``momentum`` keeps that share of the last update.

    >>> optimizer = weft.optim.RMSprop(model.parameters(), lr=1e-2, momentum=0.9)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check_not_negative(epsilon=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "alpha": alpha,
                "eps": eps,
                "centered": centered,
                "weight_decay": weight_decay,
                "capturable": capturable,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
            },
        )

    def _rule(self, group: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        momentum = group["momentum"]
        return _RULES[bool(group["centered"]), momentum > 0], (
            group["lr"],
            group["alpha"],
            group["eps"],
            group["weight_decay"],
            momentum,
            group["maximize"],
        )

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        add_numbers(state, step=0)
        add_zeros(state, param, "square_avg")
        if group["momentum"] > 0:
            add_zeros(state, param, "momentum_buffer")
        if group["centered"]:
            add_zeros(state, param, "grad_avg")

    def _composed_step(
        self, param: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], fresh: bool
    ) -> None:
        count_step(state)
        keep = group["alpha"]
        grad = penalised(grad, param, group["weight_decay"])
        square = state["square_avg"] = moved(state["square_avg"], grad * grad, 1 - keep)
        if group["centered"]:
            mean = state["grad_avg"] = moved(state["grad_avg"], grad, 1 - keep)
            square = square - mean * mean
        update = grad / (square.sqrt() + group["eps"])
        if group["momentum"] > 0:
            update = state["momentum_buffer"] * group["momentum"] + update
            state["momentum_buffer"] = update
        param.sub_(group["lr"] * update)

"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from weft import _core
from weft.optim._stepping import (
    ElementwiseOptimizer,
    add_zeros,
    check_lr,
    check_not_negative,
    penalised,
)
from weft.optim.optimizer import ParamsT

_PLAIN = _core._UpdateRule("sgd", (), ())
_MOMENTUM = _core._UpdateRule("sgd_momentum", (), ("momentum_buffer",))


class SGD(ElementwiseOptimizer):
    """Stochastic gradient descent, with momentum if asked for.

    ``momentum`` keeps that share of the last update's direction, to which ``1 - dampening`` of the
    new gradient is added; ``nesterov`` looks one step ahead. ``weight_decay`` adds that share of
    the parameter to its gradient; ``maximize`` climbs instead of descending.

    >>> optimizer = weft.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    >>> optimizer.zero_grad()
    >>> loss_of(model(x), y).backward()
    >>> optimizer.step()
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check_not_negative(momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
                "foreach": foreach,
                "differentiable": differentiable,
                "fused": fused,
            },
        )

    def _rule(self, group: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        momentum = group["momentum"]
        return _MOMENTUM if momentum != 0 else _PLAIN, (
            group["lr"],
            momentum,
            group["dampening"],
            group["weight_decay"],
            group["nesterov"],
            group["maximize"],
        )

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        if group["momentum"] != 0:
            add_zeros(state, param, "momentum_buffer")

    def _composed_step(
        self, param: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], fresh: bool
    ) -> None:
        direction = penalised(grad, param, group["weight_decay"])
        momentum = group["momentum"]
        if momentum != 0:
            buffer = direction.clone()
            if not fresh:
                buffer = state["momentum_buffer"] * momentum + (1 - group["dampening"]) * direction
            state["momentum_buffer"] = buffer
            direction = direction + momentum * buffer if group["nesterov"] else buffer
        param.sub_(group["lr"] * direction)

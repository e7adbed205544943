"""Resilient backpropagation."""

from __future__ import annotations

from typing import Any

from weft import _core
from weft.optim._stepping import (
    ElementwiseOptimizer,
    add_numbers,
    add_zeros,
    check_lr,
    count_step,
)
from weft.optim.optimizer import ParamsT

_RULE = _core._UpdateRule("rprop", ("step",), ("prev", "step_size"))
_full_like: Any = _core.ops["full_like"]


class Rprop(ElementwiseOptimizer):
    """Goes by the gradient's sign alone, with a step size for each element.

    A size is multiplied by ``etas[1]`` while the sign stays and by ``etas[0]`` when it turns,
    within ``step_sizes``. It begins at ``lr``.

    >>> optimizer = weft.optim.Rprop(model.parameters(), lr=1e-2)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(
            params,
            {
                "lr": lr,
                "etas": etas,
                "step_sizes": step_sizes,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _rule(self, group: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        return _RULE, (*group["etas"], *group["step_sizes"], group["maximize"])

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        add_numbers(state, step=0)
        add_zeros(state, param, "prev")
        if "step_size" not in state:
            state["step_size"] = _full_like(param.detach(), float(group["lr"]))

    def _composed_step(
        self, param: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], fresh: bool
    ) -> None:
        count_step(state)
        falling, rising = group["etas"]
        agreement = grad * state["prev"]
        turned = agreement < 0
        factor = (agreement > 0) * (rising - 1.0) + turned * (falling - 1.0) + 1.0
        size = (state["step_size"] * factor.to(param.dtype)).clamp(*group["step_sizes"])
        grad = grad.masked_fill(turned, 0.0)  # where the sign turned, this step waits
        state["step_size"], state["prev"] = size, grad
        param.sub_(grad.sign() * size)

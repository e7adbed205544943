"""Adagrad."""

from __future__ import annotations

from typing import Any

from weft import _core
from weft.optim._stepping import (
    ElementwiseOptimizer,
    add_numbers,
    check_lr,
    check_not_negative,
    count_step,
    penalised,
)
from weft.optim.optimizer import ParamsT

_RULE = _core._UpdateRule("adagrad", ("step",), ("sum",))
_full_like: Any = _core.ops["full_like"]


class Adagrad(ElementwiseOptimizer):
    """Divides the gradient by the root of the sum of all its squares so far.

    ``lr_decay`` lowers the rate further as steps go by; the sums begin at
    ``initial_accumulator_value``.

    >>> optimizer = weft.optim.Adagrad(model.parameters(), lr=1e-2)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check_not_negative(
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            epsilon=eps,
        )
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "eps": eps,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "fused": fused,
            },
        )
        # As in PyTorch, the state is there before the first step.
        for group in self.param_groups:
            for param in group["params"]:
                self._init_state(param, self.state[param], group)

    def share_memory(self) -> None:
        """Moves the sums to memory that processes forked from now on share with this one."""
        for kept in self.state.values():
            kept["sum"].share_memory_()

    def _rule(self, group: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        return _RULE, (
            group["lr"],
            group["lr_decay"],
            group["weight_decay"],
            group["eps"],
            group["maximize"],
        )

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        add_numbers(state, step=0)
        if "sum" not in state:
            state["sum"] = _full_like(param.detach(), group["initial_accumulator_value"])

    def _composed_step(
        self, param: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], fresh: bool
    ) -> None:
        step = count_step(state)
        grad = penalised(grad, param, group["weight_decay"])
        total = state["sum"] = state["sum"] + grad * grad
        rate = group["lr"] / (1 + (step - 1) * group["lr_decay"])
        param.sub_(rate * grad / (total.sqrt() + group["eps"]))

"""Adam with Nesterov momentum."""

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

_RULE = _core._UpdateRule("nadam", ("step", "mu_product"), ("exp_avg", "exp_avg_sq"))


class NAdam(ElementwiseOptimizer):
    """Adam that looks one step ahead, as Nesterov's momentum does.

    ``momentum_decay`` says how the momentum grows towards ``betas[0]`` over time.

    >>> optimizer = weft.optim.NAdam(model.parameters(), lr=2e-3)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
        check_not_negative(weight_decay=weight_decay, momentum_decay=momentum_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
            },
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for kept in self.state.values():
            if "mu_product" in kept:
                add_numbers(kept, mu_product=1.0)

    def _rule(self, group: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        beta1, beta2 = group["betas"]
        return _RULE, (
            group["lr"],
            beta1,
            beta2,
            group["eps"],
            group["weight_decay"],
            group["decoupled_weight_decay"],
            group["momentum_decay"],
            group["maximize"],
        )

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        add_numbers(state, step=0, mu_product=1)
        add_zeros(state, param, "exp_avg", "exp_avg_sq")

    def _composed_step(
        self, param: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], fresh: bool
    ) -> None:
        beta1, beta2 = group["betas"]
        lr, decay = group["lr"], group["momentum_decay"]
        step = count_step(state)
        grad = decayed(grad, param, group)
        mu = beta1 * (1 - 0.5 * 0.96 ** (step * decay))
        mu_next = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * decay))
        product = state["mu_product"] = state["mu_product"] * mu
        mean = state["exp_avg"] = moved(state["exp_avg"], grad, 1 - beta1)
        square = state["exp_avg_sq"] = moved(state["exp_avg_sq"], grad * grad, 1 - beta2)
        divisor = (square / (1 - beta2**step)).sqrt() + group["eps"]
        param.sub_(grad * (lr * (1 - mu) / (1 - product)) / divisor)
        param.sub_(mean * (lr * mu_next / (1 - product * mu_next)) / divisor)

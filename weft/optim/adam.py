"""Adam and AdamW."""

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

_PLAIN = _core._UpdateRule("adam", ("step",), ("exp_avg", "exp_avg_sq"))
_AMSGRAD = _core._UpdateRule("adam_amsgrad", ("step",), ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"))


class Adam(ElementwiseOptimizer):
    """Steps along a running average of the gradient, divided by the root of that of its square.

    ``betas`` are the shares that the two averages keep at each step, ``eps`` is added to the
    divisor. ``weight_decay`` adds that share of the parameter to its gradient, or with
    ``decoupled_weight_decay`` shrinks the parameter by itself, which is AdamW. ``amsgrad`` divides
    by the largest average of squares seen so far.

    >>> optimizer = weft.optim.Adam(model.parameters(), lr=1e-3)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_lr(lr)
        if isinstance(lr, _core.Tensor) and foreach and not capturable:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        check_not_negative(epsilon=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        are_tensors = [isinstance(beta, _core.Tensor) for beta in betas]
        if any(are_tensors) and not all(are_tensors):
            raise ValueError("betas must be either both floats or both Tensors")
        if any(are_tensors) and foreach and not capturable:
            raise ValueError(
                "betas[0] as a Tensor is not supported for capturable=False and foreach=True"
            )
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
                "fused": fused,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )

    def _rule(self, group: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        beta1, beta2 = group["betas"]
        return _AMSGRAD if group["amsgrad"] else _PLAIN, (
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
        if group["amsgrad"]:
            add_zeros(state, param, "max_exp_avg_sq")

    def _composed_step(
        self, param: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], fresh: bool
    ) -> None:
        beta1, beta2 = group["betas"]
        step = count_step(state)
        grad = decayed(grad, param, group)
        mean = state["exp_avg"] = moved(state["exp_avg"], grad, 1 - beta1)
        square = state["exp_avg_sq"] = moved(state["exp_avg_sq"], grad * grad, 1 - beta2)
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"] = state["max_exp_avg_sq"].maximum(square)
        divisor = square.sqrt() / (1 - beta2**step) ** 0.5 + group["eps"]
        param.sub_(group["lr"] / (1 - beta1**step) * mean / divisor)


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters by themselves, apart from the gradient.

    >>> optimizer = weft.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    # State dicts from before this option existed were AdamW's all the same.
    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True

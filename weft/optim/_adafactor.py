"""Adafactor."""

from __future__ import annotations

from typing import Any

from weft import _core
from weft._dtypes import finfo
from weft.optim._stepping import MatrixOptimizer, add_numbers, add_zeros, check_one_element
from weft.optim.optimizer import ParamsT

_zeros: Any = _core.ops["zeros"]


class Adafactor(MatrixOptimizer):
    """Scales by the size of recent gradients as Adam does, with far less memory.

    For matrices only the means of the squares over rows and over columns are kept, whose product
    stands for them all. Steps are relative to the size of the parameter (at least ``eps[1]``), and
    updates whose root mean square exceeds ``d`` are scaled down. ``beta2_decay`` says how the
    running means slow down with time.

    >>> optimizer = weft.optim.Adafactor(model.parameters())
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_one_element(lr)
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        super().__init__(
            params,
            {
                "lr": lr,
                "beta2_decay": beta2_decay,
                "eps": eps,
                "d": d,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
            },
        )

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        if param.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        add_numbers(state, step=0)
        state["step"] += 1
        step = float(state["step"])
        weight = step ** group["beta2_decay"]  # of the new squares in their running means
        if group["maximize"]:
            grad = -grad
        lr = float(group["lr"])
        smallest, smallest_size = group["eps"]
        if smallest is None:
            smallest = finfo(param.dtype).eps
        rate = max(smallest_size, _root_mean_square(param)) * min(lr, step**-0.5)
        if group["weight_decay"] != 0:
            param.mul_(1 - lr * group["weight_decay"])
        if grad.dim() > 1:
            squares = _squares_by_factors(grad, state, weight, smallest)
        else:
            add_zeros(state, param, "variance")
            squares = state["variance"].lerp_(grad * grad, weight).clone()
        update = squares.clamp_(min=smallest * smallest).rsqrt_().mul_(grad)
        param.sub_(update, alpha=rate / max(1.0, _root_mean_square(update) / group["d"]))


def _squares_by_factors(grad: Any, state: dict[str, Any], weight: float, smallest: float) -> Any:
    """Running means of the squares, from those over rows and over columns."""
    for name, dim in (("row_var", -1), ("col_var", -2)):
        mean = (grad * grad).mean(dim, keepdim=True)
        if name not in state:
            state[name] = _zeros(mean.shape, dtype=grad.dtype, device=grad.device)
        state[name].lerp_(mean, weight)
    rows, columns = state["row_var"], state["col_var"]
    return (rows @ columns).div_(rows.mean(-2, keepdim=True).clamp_(min=smallest))


def _root_mean_square(tensor: Any) -> float:
    return float(tensor.norm(2)) / tensor.numel() ** 0.5 if tensor.numel() else 0.0

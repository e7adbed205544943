"""Muon: momentum, orthogonalised."""

from __future__ import annotations

import math
from typing import Any

from weft import _core
from weft.optim._stepping import MatrixOptimizer, add_zeros, check_one_element
from weft.optim.optimizer import ParamsT

_addmm: Any = _core.ops["addmm"]
# A quintic that drives singular values towards 1 quickly rather than exactly (K. Jordan's Muon).
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


class Muon(MatrixOptimizer):
    """Steps along the nearest orthogonal matrix to the momentum; for the matrices of hidden layers.

    All directions of a matrix are trained alike that way. The nearest orthogonal matrix is found
    with ``ns_steps`` iterations of Newton and Schulz, in bfloat16. ``adjust_lr_fn`` fits the rate
    to the shape: ``"original"``, or ``"match_rms_adamw"`` to take over AdamW's rates. Embeddings,
    biases and the last layer need another optimiser.

    >>> optimizer = weft.optim.Muon([p for p in model.parameters() if p.ndim == 2], lr=0.02)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = _COEFFICIENTS,
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_one_element(lr)
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(
            params,
            {
                "lr": lr,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "nesterov": nesterov,
                "ns_coefficients": ns_coefficients,
                "eps": eps,
                "ns_steps": ns_steps,
                "adjust_lr_fn": adjust_lr_fn,
            },
        )
        for group in self.param_groups:
            for param in group["params"]:
                if param.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{param.shape}: give the others to AdamW"
                    )

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        if param.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        lr, momentum = float(group["lr"]), group["momentum"]
        add_zeros(state, param, "momentum_buffer")
        buffer = state["momentum_buffer"].lerp_(grad, 1 - momentum)
        direction = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
        direction = orthogonal_part(
            direction, group["ns_coefficients"], group["ns_steps"], group["eps"]
        )
        param.mul_(1 - lr * group["weight_decay"])
        param.sub_(direction, alpha=lr * _share_of_rate(group["adjust_lr_fn"], param.shape))


def orthogonal_part(
    matrix: Any, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Any:
    """The matrix with all singular values near 1, by the iteration of Newton and Schulz."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.bfloat16()
    if is_tall:  # the smaller of the two products of the matrix with itself
        x = x.mT
    x = x / x.norm().clamp(min=eps)  # singular values up to 1
    for _ in range(steps):
        gram = x @ x.mT
        x = _addmm(x, _addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x


def _share_of_rate(name: str | None, shape: Any) -> float:
    rows, columns = shape
    if name == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns)) if columns else 1.0

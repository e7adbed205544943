"""Activations in place, as functions. All others are written in C++."""

from __future__ import annotations

from weft import _core
from weft.ops._composed import composed

Tensor = _core.Tensor
ops = _core.ops


@composed(namespace="nn.functional", kinds="function")
def relu_(input: Tensor) -> Tensor:
    """:func:`relu`, written into ``input``."""
    return ops["relu"](input, inplace=True)


@composed(namespace="nn.functional", kinds="function")
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """:func:`leaky_relu`, written into ``input``."""
    return ops["leaky_relu"](input, negative_slope, inplace=True)


@composed(namespace="nn.functional", kinds="function")
def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """:func:`elu`, written into ``input``."""
    return ops["elu"](input, alpha, inplace=True)


@composed(namespace="nn.functional", kinds="function")
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """:func:`hardtanh`, written into ``input``."""
    return ops["hardtanh"](input, min_val, max_val, inplace=True)

"""Activations that are made of others, and those in place. The rest is core/ops/activation.cpp."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from weft import _core
from weft.ops._composed import F, composed

Tensor = _core.Tensor
ops = _core.ops
_elu = ops["elu"]
_hardtanh = ops["hardtanh"]
_leaky_relu = ops["leaky_relu"]
_relu = ops["relu"]
_softplus: Callable[..., Tensor] = _core.functional["softplus"]
_softmax = ops["softmax"]
_where = ops["where"]

# Klambauer et al., "Self-Normalizing Neural Networks": they keep mean 0 and variance 1.
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def both(kinds: str) -> Callable[[F], F]:
    """Registers a function that PyTorch offers under ``torch`` and ``torch.nn.functional``."""

    def register(function: F) -> F:
        composed(kinds=kinds)(function)
        return composed(kinds="function", namespace="nn.functional")(function)

    return register


def _check_floating(name: str, input: Tensor) -> None:
    if not input.is_floating_point():
        raise NotImplementedError(f'"{name}" not implemented for {input.dtype}')


def _into(input: Tensor, function: Callable[..., Tensor], *options: Any) -> Tensor:
    """``input`` overwritten by a function of it."""
    # What the function saves of its argument must not be what is overwritten.
    source = input.clone() if _core.is_grad_enabled() else input
    return input.copy_(function(source, *options))


# -- made of others --------------------------------------------------------------------------


def _celu(input: Tensor, alpha: float) -> Tensor:
    # Cut off below, or exp would overflow where it is not chosen, and its gradient would be NaN.
    negative = (input.clamp_max(0) / alpha).expm1() * alpha
    return _where(input > 0, input, negative)


@both("function")
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, and ``alpha * (exp(x / alpha) - 1)`` where x is negative."""
    _check_floating("celu", input)
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return _into(input, _celu, alpha) if inplace else _celu(input, alpha)


def _selu(input: Tensor) -> Tensor:
    return _elu(input, SELU_ALPHA) * SELU_SCALE


@both("function")
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The scaled ELU whose constants keep mean 0 and variance 1 through layers."""
    return _into(input, _selu) if inplace else _selu(input)


def _hardsigmoid(input: Tensor) -> Tensor:
    return _hardtanh(input + 3, 0.0, 6.0) / 6


@composed(kinds="function", namespace="nn.functional")
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """clamp(x / 6 + 1 / 2, 0, 1): a sigmoid made of straight lines."""
    _check_floating("hardsigmoid", input)
    return _into(input, _hardsigmoid) if inplace else _hardsigmoid(input)


def _hardswish(input: Tensor) -> Tensor:
    return input * _hardtanh(input + 3, 0.0, 6.0) / 6


@composed(kinds="function", namespace="nn.functional")
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * hardsigmoid(x)."""
    _check_floating("hardswish", input)
    return _into(input, _hardswish) if inplace else _hardswish(input)


def _mish(input: Tensor) -> Tensor:
    return input * _softplus(input).tanh()


@composed(kinds="function", namespace="nn.functional")
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x))."""
    _check_floating("mish", input)
    return _into(input, _mish) if inplace else _mish(input)


@composed(kinds="function", namespace="nn.functional")
def softsign(input: Tensor) -> Tensor:
    """x / (1 + abs(x))."""
    return input / (input.abs() + 1)


@composed(kinds="function", namespace="nn.functional")
def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return input - input.tanh()


@both("function method out")
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x, and 0 where abs(x) is at most ``lambd``."""
    _check_floating("hardshrink", input)
    return input.masked_fill(input.abs() <= lambd, 0)


@composed(kinds="function out", namespace="nn.functional")
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by ``lambd``, and 0 where abs(x) is at most that."""
    _check_floating("softshrink", input)
    if lambd < 0:
        raise RuntimeError(
            f"lambda must be in range [0, inf) for input dtype {input.dtype}, but found {lambd:g}"
        )
    return input - input.clamp(-lambd, lambd)


def _threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    return input.masked_fill(input <= threshold, value)


@both("function")
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where it is above ``threshold``, and ``value`` elsewhere."""
    if inplace:
        return _into(input, _threshold, threshold, value)
    return _threshold(input, threshold, value)


def _check_slopes(input: Tensor, weight: Tensor) -> None:
    if weight.dim() > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.dim()}"
        )
    if weight.dtype != input.dtype:
        raise RuntimeError(
            "prelu: Type promoting not supported. Got "
            f"{input.dtype} (input) and {weight.dtype} (weight)"
        )
    if weight.numel() == 1:
        return
    if input.dim() == 0:
        raise RuntimeError("Not allow zero-dim input tensor.")
    channels = input.shape[1] if input.dim() > 1 else 1
    if weight.numel() != channels:
        raise RuntimeError(
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
            f"{weight.numel()} and channel size = {channels}."
        )


@both("function method")
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x, and ``weight * x`` where x is negative: one weight, or one for each channel."""
    _check_slopes(input, weight)
    if weight.dim() == 1:
        shape = [1] * input.dim()
        if input.dim() > 1:
            shape[1] = weight.numel()
        weight = weight.reshape(shape)
    # A sum and no choice: a choice would give the weight 0 * inf as gradient where x is infinite.
    return _relu(input) + weight * input.clamp_max(0)


@both("function")
def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """A leaky ReLU whose slope is drawn for each element while training."""
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return _leaky_relu(input, (lower + upper) / 2, inplace)
    slope = _core.ops["empty_like"](input).uniform_(lower, upper)
    slope.masked_fill_(input > 0, 1)
    return input.mul_(slope) if inplace else input * slope


@composed(kinds="function", namespace="nn.functional")
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A differentiable draw from categories: the softmax of noisy logits.

    With ``hard`` the result is one-hot, and its gradient that of the soft one.
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = -_core.ops["empty_like"](logits).exponential_().log()
    soft = _softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    chosen = soft.max(dim, keepdim=True)[1]
    one_hot = _core.ops["zeros_like"](logits).scatter_(dim, chosen, 1.0)
    return one_hot - soft.detach() + soft


# -- in place, as functions ------------------------------------------------------------------


@composed(namespace="nn.functional", kinds="function")
def relu_(input: Tensor) -> Tensor:
    """:func:`relu`, written into ``input``."""
    return ops["relu"](input, inplace=True)


@composed(namespace="nn.functional", kinds="function")
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """:func:`leaky_relu`, written into ``input``."""
    return _leaky_relu(input, negative_slope, inplace=True)


@composed(namespace="nn.functional", kinds="function")
def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """:func:`elu`, written into ``input``."""
    return _elu(input, alpha, inplace=True)


@composed(namespace="nn.functional", kinds="function")
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """:func:`hardtanh`, written into ``input``."""
    return _hardtanh(input, min_val, max_val, inplace=True)


@both("function")
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """:func:`celu`, written into ``input``."""
    return celu(input, alpha, inplace=True)


@both("function")
def selu_(input: Tensor) -> Tensor:
    """:func:`selu`, written into ``input``."""
    return selu(input, inplace=True)


@both("function")
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """:func:`threshold`, written into ``input``."""
    return _into(input, _threshold, threshold, value)


@both("function")
def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Tensor:
    """:func:`rrelu`, written into ``input``."""
    return rrelu(input, lower, upper, training, inplace=True)

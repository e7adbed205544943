"""Gradients kept within bounds before the optimiser uses them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from types import GeneratorType
from typing import Any

import weft
from weft import _core
from weft._core import Tensor

_vector_norm = _core.ops["linalg_vector_norm"]

Parameters = Tensor | Iterable[Tensor]


def _listed(parameters: Parameters) -> list[Tensor]:
    if isinstance(parameters, Tensor):
        return [parameters]
    given = list(parameters)
    if not given and isinstance(parameters, GeneratorType):
        warnings.warn(
            "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3
        )
    return given


def get_total_norm(
    tensors: Parameters,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors as if they were one vector."""
    given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not given:
        return weft.tensor(0.0)
    norm_type = float(norm_type)
    with weft.no_grad():
        norms = [_vector_norm(tensor, norm_type) for tensor in given]
        total: Tensor = _vector_norm(weft.stack(norms), norm_type)
        if error_if_nonfinite and not bool(total.isfinite()):
            raise RuntimeError(
                f"The total norm of order {norm_type} for gradients from `parameters` is "
                "non-finite, so it cannot be clipped. To disable this error and scale the "
                "gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
            )
    return total


def clip_grads_with_norm_(
    parameters: Parameters, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scales gradients down by a norm that is known already, if it is above ``max_norm``."""
    _scale(_gradients(_listed(parameters)), float(max_norm), total_norm)


def _gradients(parameters: list[Tensor]) -> list[Tensor]:
    return [g for g in (parameter.grad for parameter in parameters) if g is not None]


def _scale(gradients: list[Tensor], max_norm: float, total_norm: Tensor) -> None:
    with weft.no_grad():
        # Multiplied also by 1, so that nothing waits for the norm's value.
        factor = (max_norm / (total_norm + 1e-6)).clamp_(max=1.0)
        for gradient in gradients:
            gradient.mul_(factor)


def clip_grad_norm_(
    parameters: Parameters,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales all gradients so that their common norm is at most ``max_norm``.

    Returns the norm they had. ``foreach`` is accepted and changes nothing.

    >>> loss.backward()
    >>> weft.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    >>> optimiser.step()
    """
    gradients = _gradients(_listed(parameters))
    total = get_total_norm(gradients, norm_type, error_if_nonfinite)
    _scale(gradients, float(max_norm), total)
    return total


def clip_grad_value_(
    parameters: Parameters, clip_value: float, foreach: bool | None = None
) -> None:
    """Cuts every element of the gradients off at plus and minus ``clip_value``."""
    bound = float(clip_value)
    with weft.no_grad():
        for gradient in _gradients(_listed(parameters)):
            gradient.clamp_(-bound, bound)


def clip_grad_norm(*args: Any, **kwargs: Any) -> Tensor:
    """The older name of :func:`clip_grad_norm_`."""
    warnings.warn(
        "torch.nn.utils.clip_grad_norm is now deprecated in favor of "
        "torch.nn.utils.clip_grad_norm_.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(*args, **kwargs)

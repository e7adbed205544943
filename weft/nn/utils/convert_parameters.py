"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

import weft
from weft._core import Tensor
from weft._functions import typename


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters, one after the other; gradients flow through it."""
    return weft.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Gives the parameters the values of a vector, in the order of :func:`parameters_to_vector`.

    They become views of its memory.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {typename(vec)}")
    start = 0
    for parameter in parameters:
        end = start + parameter.numel()
        parameter.data = vec[start:end].view_as(parameter).data
        start = end

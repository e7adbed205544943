"""Tensors made wider at their ends."""

from __future__ import annotations

from collections.abc import Sequence

from weft import _core
from weft._core import Tensor
from weft.ops._composed import composed

_constant_pad = _core.ops["constant_pad_nd"]
_extend_edges = _core.ops["extend_edges"]

_EXTENDED = ("reflect", "replicate", "circular")


@composed(kinds="function", namespace="nn.functional")
def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Widens a tensor by ``pad[0]`` before and ``pad[1]`` after its last dimension, and so on for
    the dimensions before it. What is added is `value` (mode ``"constant"``), the mirror image
    (``"reflect"``), the nearest element (``"replicate"``) or the other end (``"circular"``).
    Negative numbers cut off.

    >>> weft.nn.functional.pad(weft.tensor([[1.0, 2.0, 3.0]]), (2, 1), mode="reflect")
    tensor([[3., 2., 1., 2., 3., 2.]])
    """
    count = len(pad)
    if count % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if count > 2 * input.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {count} and input of dimension {input.ndim}"
        )
    if mode == "constant":
        return _constant_pad(input, pad, 0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in _EXTENDED:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if not 1 <= count // 2 <= 3 or input.ndim not in (count // 2 + 1, count // 2 + 2):
        raise NotImplementedError(
            f"Padding size {count} is not supported for {input.ndim}D input tensor."
        )
    return _extend_edges(input, pad, mode)

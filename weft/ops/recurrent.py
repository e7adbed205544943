"""Recurrent cells whose arguments C++ does not take as they come. See core/ops/recurrent.cpp."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft import _core
from weft.ops._composed import composed

Tensor = _core.Tensor
_lstm_cell: Callable[..., tuple[Tensor, Tensor]] = _core.ops["lstm_cell_step"]


@composed(kinds="function")
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: the new hidden state and the new cell state, given ``hx = (h, c)``."""
    if len(hx) != 2:
        raise RuntimeError(f"lstm_cell expects two hidden states, got {len(hx)}")
    hidden, cell = hx
    return _lstm_cell(input, hidden, cell, w_ih, w_hh, b_ih, b_hh)

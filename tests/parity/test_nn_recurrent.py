"""Recurrent layers and cells behave as PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import weft
from tests.parity.nn_compare import Twins, same_error, to_weft

F64 = {"dtype": torch.float64}
LAYERS = ("RNN", "GRU", "LSTM")


def sequence(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()


def states_of(kind: str, rows: int, batch: tuple[int, ...], hidden: int, proj: int = 0) -> Any:
    if kind == "LSTM":
        return (sequence(rows, *batch, proj or hidden), sequence(rows, *batch, hidden))
    return sequence(rows, *batch, hidden)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize(
    ("layers", "bidirectional", "bias", "batch_first"),
    [
        (1, False, True, False),
        (2, True, True, False),
        (2, True, False, True),
        (3, False, True, True),
    ],
)
def test_layers(kind: str, layers: int, bidirectional: bool, bias: bool, batch_first: bool) -> None:
    twins = Twins(
        kind, 3, 4, layers, bias=bias, bidirectional=bidirectional, batch_first=batch_first, **F64
    )
    rows = layers * (2 if bidirectional else 1)
    twins.compare(sequence(5, 2, 3))
    batch = 5 if batch_first else 2
    twins.compare(sequence(5, 2, 3), states_of(kind, rows, (batch,), 4))
    twins.compare(sequence(6, 3))
    twins.compare(sequence(6, 3), states_of(kind, rows, (), 4))
    twins.compare(sequence(5, 0, 3) if not batch_first else sequence(0, 5, 3))


def test_relu() -> None:
    twins = Twins("RNN", 3, 4, nonlinearity="relu", **F64)
    twins.compare(sequence(5, 2, 3), sequence(1, 2, 4))
    Twins("RNN", 3, 4, 2, "relu", **F64).compare(sequence(5, 2, 3))


@pytest.mark.parametrize("bias", [True, False])
def test_projection(bias: bool) -> None:
    twins = Twins("LSTM", 3, 5, 2, bias=bias, bidirectional=True, proj_size=2, **F64)
    twins.compare(sequence(4, 2, 3), states_of("LSTM", 4, (2,), 5, 2))


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("sort", [True, False])
def test_packed(kind: str, sort: bool) -> None:
    lengths = [4, 3, 3, 1] if sort else [3, 1, 4, 3]
    packed = torch.nn.utils.rnn.pack_padded_sequence(
        sequence(4, 4, 3), lengths, enforce_sorted=sort
    )
    packed.data.retain_grad()
    twins = Twins(kind, 3, 4, 2, bidirectional=True, **F64)
    detached = type(packed)(packed.data.detach().requires_grad_(), *packed[1:])
    twins.compare(detached)
    twins.compare(detached, states_of(kind, 4, (4,), 4))


def test_padding_and_packing_go_through() -> None:
    twins = Twins("GRU", 3, 4, **F64)
    utils = weft.nn.utils.rnn
    data = sequence(4, 3, 3)
    lengths = [4, 2, 3]
    packed = utils.pack_padded_sequence(to_weft(data), lengths, enforce_sorted=False)
    output, lengths_again = utils.pad_packed_sequence(twins.ours(packed)[0])
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(
        twins.theirs(torch.nn.utils.rnn.pack_padded_sequence(data, lengths, enforce_sorted=False))[
            0
        ]
    )
    assert lengths_again.tolist() == lengths
    assert (output - to_weft(expected.detach())).abs().max().item() < 1e-12


def test_dropout_between_layers_only() -> None:
    weft.manual_seed(1)
    gru = weft.nn.GRU(3, 4, 2, dropout=1.0, bias=False)
    output, last = gru(weft.randn(5, 2, 3))
    assert output.abs().sum().item() == 0  # the second layer sees nothing
    assert last[0].abs().sum().item() > 0
    gru.eval()
    assert gru(weft.randn(5, 2, 3))[0].abs().sum().item() > 0


@pytest.mark.parametrize("kind", ["RNNCell", "GRUCell", "LSTMCell"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch", [(), (2,), (0,)])
def test_cells(kind: str, bias: bool, batch: tuple[int, ...]) -> None:
    twins = Twins(kind, 3, 4, bias, **F64)
    twins.compare(sequence(*batch, 3))
    state = sequence(*batch, 4)
    twins.compare(sequence(*batch, 3), (state, sequence(*batch, 4) * 2) if "L" in kind else state)


def test_relu_cell() -> None:
    Twins("RNNCell", 3, 4, nonlinearity="relu", **F64).compare(sequence(2, 3), sequence(2, 4))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("kind", ["GRUCell", "LSTMCell"])
def test_other_dtypes(kind: str, dtype: torch.dtype) -> None:
    twins = Twins(kind, 5, 40, dtype=dtype)
    tolerance = {torch.float16: 4e-3, torch.bfloat16: 4e-2, torch.float32: 2e-6}[dtype]
    twins.compare(sequence(3, 5).detach().to(dtype).requires_grad_(), tolerance=tolerance)


def test_functions() -> None:
    weights = [sequence(12, 3), sequence(12, 4), sequence(12), sequence(12)]
    x, h, c = sequence(2, 3), sequence(2, 4), sequence(2, 4) * 2
    ours = weft.gru_cell(*(to_weft(t.detach()) for t in (x, h, *weights)))
    assert (ours - to_weft(torch.gru_cell(x, h, *weights).detach())).abs().max().item() < 1e-14
    weights = [sequence(16, 3), sequence(16, 4), sequence(16), sequence(16)]
    mine = weft.lstm_cell(
        to_weft(x.detach()),
        (to_weft(h.detach()), to_weft(c.detach())),
        *(to_weft(w.detach()) for w in weights),
    )
    for a, b in zip(mine, torch.lstm_cell(x, (h, c), *weights), strict=True):
        assert (a - to_weft(b.detach())).abs().max().item() < 1e-14


MISTAKES = {
    "layer of 1-D": lambda m: m.nn.LSTM(3, 4)(m.ones(3)),
    "layer of 4-D": lambda m: m.nn.GRU(3, 4)(m.ones(1, 2, 3, 3)),
    "features": lambda m: m.nn.LSTM(3, 4)(m.ones(2, 3, 2)),
    "hidden size": lambda m: m.nn.LSTM(3, 4)(m.ones(2, 3, 3), (m.ones(1, 3, 3), m.ones(1, 3, 4))),
    "2-D states": lambda m: m.nn.LSTM(3, 4)(m.ones(2, 3, 3), (m.ones(1, 3), m.ones(1, 4))),
    "3-D states": lambda m: m.nn.LSTM(3, 4)(m.ones(2, 3), (m.ones(1, 3, 4), m.ones(1, 3, 4))),
    "3-D state": lambda m: m.nn.GRU(3, 4)(m.ones(2, 3), m.ones(1, 3, 4)),
    "2-D state": lambda m: m.nn.GRU(3, 4)(m.ones(2, 3, 3), m.ones(3, 4)),
    "rows of the state": lambda m: m.nn.GRU(3, 4)(m.ones(2, 3, 3), m.ones(2, 3, 4)),
    "proj_size too large": lambda m: m.nn.LSTM(3, 4, proj_size=4),
    "proj_size of GRU": lambda m: m.nn.GRU(3, 4, proj_size=2),
    "proj_size negative": lambda m: m.nn.LSTM(3, 4, proj_size=-1),
    "dropout": lambda m: m.nn.LSTM(3, 4, dropout=2.0),
    "hidden_size 0": lambda m: m.nn.LSTM(3, 0),
    "hidden_size float": lambda m: m.nn.LSTM(3, 4.0),
    "no layers": lambda m: m.nn.LSTM(3, 4, 0),
    "nonlinearity": lambda m: m.nn.RNN(3, 4, nonlinearity="x"),
    "dtype": lambda m: m.nn.LSTM(3, 4)(m.ones(2, 3, 3, dtype=m.float64)),
    "no steps": lambda m: m.nn.LSTM(3, 4)(m.ones(0, 3, 3)),
    "cell of 3-D": lambda m: m.nn.LSTMCell(3, 4)(m.ones(2, 2, 3)),
    "cell, 3-D state": lambda m: m.nn.GRUCell(3, 4)(m.ones(2, 3), m.ones(1, 2, 4)),
    "cell, 1-D state": lambda m: m.nn.GRUCell(3, 4)(m.ones(2, 3), m.ones(4)),
    "cell, 1-D cell": lambda m: m.nn.LSTMCell(3, 4)(m.ones(2, 3), (m.ones(2, 4), m.ones(4))),
    "cell, features": lambda m: m.nn.GRUCell(3, 4)(m.ones(2, 2)),
    "cell, batch": lambda m: m.nn.GRUCell(3, 4)(m.ones(2, 3), m.ones(3, 4)),
    "cell, hidden size": lambda m: m.nn.GRUCell(3, 4)(m.ones(2, 3), m.ones(2, 3)),
    "cell, tensor for a pair": lambda m: m.nn.LSTMCell(3, 4)(m.ones(2, 3), m.ones(2, 4)),
    "cell, nonlinearity": lambda m: m.nn.RNNCell(3, 4, nonlinearity="x")(m.ones(2, 3)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake: str) -> None:
    call = MISTAKES[mistake]
    words = 30 if mistake in ("dtype", "cell, tensor for a pair") else 60
    same_error(lambda: call(torch), lambda: call(weft), words)


def test_useless_dropout_warns() -> None:
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last"):
        weft.nn.GRU(3, 4, dropout=0.5)

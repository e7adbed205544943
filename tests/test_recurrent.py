"""Recurrent cells and layers: derivatives of every order, loops of cells, trees of cells."""

from __future__ import annotations

from typing import Any

import pytest

from ._target import weft, weft_only

nn = weft.nn


def leaf(*shape: int, seed: int = 0) -> Any:
    generator = weft.Generator().manual_seed(seed + sum(shape))
    return weft.randn(*shape, generator=generator, dtype=weft.float64).requires_grad_()


def gru_inputs() -> tuple[Any, ...]:
    return (leaf(2, 2), leaf(2, 3), leaf(9, 2), leaf(9, 3), leaf(9), leaf(9, seed=1))


def lstm_inputs() -> tuple[Any, ...]:
    weights = (leaf(12, 2), leaf(12, 3), leaf(12), leaf(12, seed=1))
    return (leaf(2, 2), leaf(2, 3), leaf(2, 3, seed=1), *weights)


def lstm(x: Any, h: Any, c: Any, *weights: Any) -> Any:
    return weft.lstm_cell(x, (h, c), *weights)


CELLS = {
    "gru": (weft.gru_cell, gru_inputs),
    "lstm": (lstm, lstm_inputs),
    "lstm, hidden alone": (lambda *a: lstm(*a)[0], lstm_inputs),
    "lstm, cell alone": (lambda *a: lstm(*a)[1], lstm_inputs),
    "tanh": (
        weft.rnn_tanh_cell,
        lambda: (leaf(2, 2), leaf(2, 3), leaf(3, 2), leaf(3, 3), leaf(3), leaf(3)),
    ),
    "gru without biases": (
        lambda *a: weft.gru_cell(*a),
        lambda: (leaf(2, 2), leaf(2, 3), leaf(9, 2), leaf(9, 3)),
    ),
}


@pytest.mark.parametrize("name", CELLS)
def test_derivatives(name: str) -> None:
    function, inputs = CELLS[name]
    assert weft.autograd.gradcheck(function, inputs())
    assert weft.autograd.gradgradcheck(function, inputs())


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_third_derivative(name: str) -> None:
    function, inputs = CELLS[name]
    values = inputs()[: 2 if name == "gru" else 3]
    weights = [value.detach() for value in inputs()[len(values) :]]

    def first(*given: Any) -> Any:
        result = function(*given, *weights)
        results = result if isinstance(result, tuple) else (result,)
        loss = sum((r * r).sum() for r in results)
        return weft.autograd.grad(loss, given, create_graph=True)

    assert weft.autograd.gradgradcheck(first, values)


@weft_only
def test_gates_carry_gradients() -> None:
    """The second result of the operation behind a cell is a result like any other."""
    operation = weft._core.ops["gru_update"]
    assert weft.autograd.gradcheck(operation, (leaf(2, 9), leaf(2, 9, seed=1), leaf(2, 3)))
    operation = weft._core.ops["lstm_update"]
    assert weft.autograd.gradcheck(operation, (leaf(2, 12), leaf(2, 12, seed=1), leaf(2, 3)))


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
@pytest.mark.parametrize(("steps", "both"), [(1, False), (3, True)])
def test_derivatives_of_layers(kind: str, steps: int, both: bool) -> None:
    layer = getattr(nn, kind)(2, 2, bidirectional=both, dtype=weft.float64)
    names = [name for name, _ in layer.named_parameters()]
    rows = 2 if both else 1
    states = (leaf(rows, 2, 2), leaf(rows, 2, 2, seed=1))[: 2 if kind == "LSTM" else 1]

    def run(x: Any, *values: Any) -> tuple[Any, ...]:
        given = values[: len(states)]
        weights = dict(zip(names, values[len(states) :], strict=True))
        for name, weight in weights.items():
            layer._parameters[name] = weight
        output, last = layer(x, given if kind == "LSTM" else given[0])
        return (output, *last) if kind == "LSTM" else (output, last)

    inputs = (
        leaf(steps, 2, 2),
        *states,
        *(p.detach().requires_grad_() for p in layer.parameters()),
    )
    assert weft.autograd.gradcheck(run, inputs)
    assert weft.autograd.gradgradcheck(run, inputs)


def test_third_derivative_of_layers() -> None:
    gru, lstm_layer = nn.GRU(2, 2, dtype=weft.float64), nn.LSTM(2, 2, dtype=weft.float64)

    def first(x: Any) -> Any:
        loss = (gru(x)[0] ** 2).sum() + (lstm_layer(x)[1][1] ** 2).sum()
        return weft.autograd.grad(loss, x, create_graph=True)[0]

    assert weft.autograd.gradgradcheck(first, (leaf(3, 1, 2),))


def test_formulas() -> None:
    x, h, w_ih, w_hh, b_ih, b_hh = (t.detach() for t in gru_inputs())
    a, b = x @ w_ih.T + b_ih, h @ w_hh.T + b_hh
    reset, update = (a + b)[:, :3].sigmoid(), (a + b)[:, 3:6].sigmoid()
    fresh = (a[:, 6:] + reset * b[:, 6:]).tanh()
    expected = (1 - update) * fresh + update * h
    assert (weft.gru_cell(x, h, w_ih, w_hh, b_ih, b_hh) - expected).abs().max().item() < 1e-14

    x, h, c, w_ih, w_hh, b_ih, b_hh = (t.detach() for t in lstm_inputs())
    i, f, g, o = (x @ w_ih.T + b_ih + h @ w_hh.T + b_hh).chunk(4, 1)
    cell = f.sigmoid() * c + i.sigmoid() * g.tanh()
    hidden = o.sigmoid() * cell.tanh()
    got = weft.lstm_cell(x, (h, c), w_ih, w_hh, b_ih, b_hh)
    assert (got[0] - hidden).abs().max().item() < 1e-14
    assert (got[1] - cell).abs().max().item() < 1e-14


@pytest.mark.parametrize(
    ("layer", "cell"), [("GRU", "GRUCell"), ("LSTM", "LSTMCell"), ("RNN", "RNNCell")]
)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_layer_is_a_loop_of_cells(layer: str, cell: str, reverse: bool) -> None:
    whole = getattr(nn, layer)(3, 4, bidirectional=reverse, dtype=weft.float64)
    step = getattr(nn, cell)(3, 4, dtype=weft.float64)
    end = "_l0_reverse" if reverse else "_l0"
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(step, name).data.copy_(getattr(whole, name + end).data)
    x = leaf(6, 2, 3)
    output, _ = whole(x)
    state, outputs = None, []
    for t in reversed(range(6)) if reverse else range(6):
        state = step(x[t], state)
        outputs.append(state[0] if layer == "LSTM" else state)
    expected = weft.stack(outputs[::-1] if reverse else outputs)
    got = output[..., 4:] if reverse else output
    assert (got - expected).abs().max().item() < 1e-14
    own = weft.autograd.grad((got**2).sum(), x)[0]
    loop = weft.autograd.grad((expected**2).sum(), x)[0]
    assert (own - loop).abs().max().item() < 1e-13


def test_a_tree_of_cells() -> None:
    """Every node's state from its children's: no two examples have the same graph."""
    cell = nn.LSTMCell(4, 4, dtype=weft.float64)

    def value(tree: Any) -> tuple[Any, Any]:
        if isinstance(tree, float):
            return weft.full((1, 4), tree, dtype=weft.float64), weft.zeros(1, 4, dtype=weft.float64)
        (left, c_left), (right, c_right) = (value(child) for child in tree)
        return cell(left, (right, c_left + c_right))

    tree = ((0.1, (0.2, 0.3)), ((0.4, 0.5), 0.6))
    loss = value(tree)[0].sum()
    loss.backward()
    gradient = cell.weight_hh.grad
    step = 1e-6
    for place in ((0, 0), (5, 1), (15, 3)):
        with weft.no_grad():
            cell.weight_hh[place] += step
            above = value(tree)[0].sum().item()
            cell.weight_hh[place] -= 2 * step
            below = value(tree)[0].sum().item()
            cell.weight_hh[place] += step
        assert gradient[place].item() == pytest.approx((above - below) / (2 * step), abs=1e-8)


def test_a_cell_learns() -> None:
    """To remember the first of five numbers."""
    weft.manual_seed(0)
    cell, out = nn.GRUCell(1, 16), nn.Linear(16, 1)
    parameters = [*cell.parameters(), *out.parameters()]
    speeds = [weft.zeros_like(parameter) for parameter in parameters]
    x = weft.randn(32, 5, 1)
    losses = []
    for _ in range(150):
        state = None
        for t in range(5):
            state = cell(x[:, t], state)
        loss = ((out(state) - x[:, 0]) ** 2).mean()
        losses.append(loss.item())
        gradients = weft.autograd.grad(loss, parameters)
        with weft.no_grad():
            for parameter, speed, gradient in zip(parameters, speeds, gradients, strict=True):
                speed.mul_(0.9).add_(gradient)
                parameter -= 0.05 * speed
    assert losses[-1] < losses[0] / 5


def test_packed_rows_are_what_each_sequence_gives_alone() -> None:
    gru = nn.GRU(3, 4, bidirectional=True, dtype=weft.float64)
    sequences = [leaf(n, 3).detach() for n in (2, 5, 3)]
    packed = nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
    output, lengths = nn.utils.rnn.pad_packed_sequence(gru(packed)[0])
    last = gru(packed)[1]
    for i, sequence in enumerate(sequences):
        alone, alone_last = gru(sequence)
        assert lengths[i].item() == len(sequence)
        assert (output[: len(sequence), i] - alone).abs().max().item() < 1e-14
        assert (last[:, i] - alone_last).abs().max().item() < 1e-14


def test_nothing_is_kept_without_gradient() -> None:
    with weft.no_grad():
        state = nn.GRUCell(3, 4)(weft.ones(2, 3))
    assert state.grad_fn is None
    assert not state.requires_grad

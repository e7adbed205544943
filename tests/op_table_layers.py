"""Lines of the operation table about layers: normalisation, attention, recurrent cells."""

from __future__ import annotations

from typing import Any

from ._target import weft
from .op_rows import Call, Floats, call, row

F = Floats


def functional(name: str) -> str:
    return f"nn.functional.{name}"


def in_training(name: str) -> Any:
    """Statistics taken from the input; a function of input, weight and bias."""
    function = getattr(weft.nn.functional, name)
    return lambda input, weight, bias: function(input, None, None, weight, bias, True)


def in_evaluation(input: Any, weight: Any, bias: Any) -> Any:
    mean = weft.linspace(-1, 1, 2, dtype=input.dtype, device=input.device)
    return weft.nn.functional.batch_norm(input, mean, mean + 1.5, weight, bias)


def cells(gates: int) -> list[Call]:
    return [
        call(F((2, 3)), F((2, 4)), F((4 * gates, 3)), F((4 * gates, 4)), *biases)
        for biases in ((), (F((4 * gates,)), F((4 * gates,))))
    ] + [call(F((3,)), F((2,)), F((2 * gates, 3)), F((2 * gates, 2)))]


LAYERS = [
    row(
        functional("layer_norm"),
        call(F((3, 4)), (4,), F((4,)), F((4,))),
        call(F((2, 3, 2)), (3, 2), F((3, 2)), None),
        call(F((3, 4), layout="transposed"), (4,)),
    ),
    row(
        functional("rms_norm"),
        call(F((3, 4)), (4,), F((4,)), 0.01),
        call(F((2, 3, 2), layout="transposed"), (2,)),
    ),
    row(
        functional("group_norm"),
        call(F((2, 4, 3)), 2, F((4,)), F((4,))),
        call(F((3, 6), layout="stepped"), 2),
    ),
    row(
        functional("instance_norm"),
        call(F((2, 3, 4)), F((3,)), F((3,))),
        function=in_training("instance_norm"),
    ),
    row(
        functional("batch_norm"),
        call(F((3, 2, 2)), F((2,)), F((2,))),
        call(F((5, 3), layout="transposed"), F((3,)), F((3,))),
        function=in_training("batch_norm"),
    ),
    row(
        functional("batch_norm"),
        call(F((3, 2, 2)), F((2,)), F((2,))),
        function=in_evaluation,
    ),
    row(functional("local_response_norm"), call(F((2, 4, 3)), 3, 0.5, 0.6, 1.5)),
    row(
        functional("scaled_dot_product_attention"),
        call(F((1, 2, 3, 2)), F((1, 2, 4, 2)), F((1, 2, 4, 3))),
        call(F((2, 3, 2), layout="transposed"), F((2, 3, 2)), F((2, 3, 2)), is_causal=True),
        call(F((3, 2)), F((4, 2)), F((4, 2)), F((3, 4))),
    ),
    row("gru_cell", *cells(3)),
    row("rnn_tanh_cell", *cells(1)),
    row("rnn_relu_cell", *cells(1)),
]

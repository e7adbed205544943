"""Lines of the operation table about activations, losses and dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._target import weft
from .op_rows import Floats, Whole, call, kink, row, unary

F = Floats


def functional(name: str) -> str:
    return f"nn.functional.{name}"


def with_the_same_noise(name: str) -> Callable[..., Any]:
    """A function that draws, so that it drops the same elements at every call."""

    def call_it(*args: Any) -> Any:
        weft.manual_seed(3)
        return getattr(weft.nn.functional, name)(*args, training=True)

    return call_it


ACTIVATIONS = [
    row(
        functional("celu"),
        unary(avoid=[0.0]),
        call(F(layout="transposed", avoid=(0.0,)), 0.5),
        kinks=[kink([0.0], gives=[1.0]), kink([-1e5, 1e5], gives=[0.0, 1.0])],
    ),
    row(functional("selu"), unary(avoid=[0.0])),
    row(
        functional("hardsigmoid"),
        unary(avoid=[]),
        kinks=[kink([-3.0, 3.0, 9.0], gives=[0.0, 0.0, 0.0])],
    ),
    row(
        functional("hardswish"),
        unary(avoid=[]),
        kinks=[kink([-3.0, 3.0, 9.0], gives=[0.0, 1.0, 1.0])],
    ),
    row(functional("mish"), unary(), kinks=[kink([-1e5, 1e5], gives=[0.0, 1.0])]),
    row(functional("softsign"), unary(avoid=[0.0]), kinks=[kink([0.0], gives=[1.0])]),
    row(functional("tanhshrink"), unary()),
    row(
        functional("hardshrink"),
        unary(avoid=[-0.5, 0.5]),
        kinks=[kink([-0.5, 0.5, 0.0], gives=[0.0, 0.0, 0.0])],
    ),
    row(
        functional("softshrink"),
        unary(avoid=[-0.5, 0.5]),
        kinks=[kink([-0.5, 0.5, 0.0], gives=[0.0, 0.0, 0.0])],
    ),
    row(
        functional("threshold"),
        call(F(avoid=(0.3,)), 0.3, 5.0),
        kinks=[kink([0.3, 0.4], 0.3, 5.0, gives=[0.0, 1.0])],
    ),
    row(
        functional("prelu"),
        call(F((3, 2), avoid=(0.0,)), F((2,))),
        call(F((2, 3, 2), layout="transposed", avoid=(0.0,)), F((1,))),
        call(F((3,), avoid=(0.0,)), F(())),
        kinks=[kink([[0.0]], [0.25], gives=([[0.25]], [0.0]))],
    ),
    row(functional("rrelu"), call(F(avoid=(0.0,)))),
]

LABELS = Whole([0, 2])
SIGNS = Whole([[1, -1, 1], [-1, 1, 1]])
LOSSES = [
    row(functional("soft_margin_loss"), call(F(), SIGNS), call(F(), SIGNS, reduction="none")),
    row(
        functional("hinge_embedding_loss"),
        call(F(avoid=(1.0,)), SIGNS),
        call(F(avoid=(0.5,)), SIGNS, 0.5, reduction="sum"),
    ),
    row(functional("multilabel_soft_margin_loss"), call(F(), SIGNS), call(F(), SIGNS, F((3,)))),
    row(functional("poisson_nll_loss"), call(F(), SIGNS), call(F(low=0.5), SIGNS, False, True)),
    row(
        functional("gaussian_nll_loss"),
        call(F(), F(), F(low=0.5)),
        call(F(), F(), F((2, 1), low=0.5), full=True, reduction="none"),
    ),
    row(functional("pairwise_distance"), call(F(), F()), call(F(), F((3,)), 3.0, keepdim=True)),
    row(
        functional("margin_ranking_loss"),
        call(F((4,)), F((4,), low=-1.7), Whole([1, -1, 1, -1]), 0.2),
    ),
    row(functional("cosine_embedding_loss"), call(F((2, 4)), F((2, 4)), Whole([1, -1]), -0.5)),
    row(
        functional("triplet_margin_loss"),
        call(F((3, 4)), F((3, 4)), F((3, 4)), 3.0),
        call(F((3, 4)), F((3, 4)), F((3, 4)), 3.0, swap=True, reduction="none"),
    ),
]
# PyTorch has no second derivative of these two.
CLASS_MARGINS = [
    row(
        functional("multi_margin_loss"),
        call(F(), LABELS, margin=0.7),
        call(F(), LABELS, 2, 0.7, F((3,), gradient=False)),
    ),
    row(functional("multilabel_margin_loss"), call(F(), Whole([[2, -1, 0], [1, 0, -1]]))),
]

DROPOUT = [
    row(
        functional(name),
        call(F((4, 3, 2)), 0.4),
        call(F((4, 3, 2), layout="transposed"), 0.4),
        call(F((0, 3, 2)), 0.4),
        function=with_the_same_noise(name),
    )
    for name in ("dropout", "dropout1d", "alpha_dropout", "feature_alpha_dropout")
]

TABLES = [
    row(
        functional("embedding_bag"),
        call(Whole([1, 2, 1, 0]), F((4, 2)), Whole([0, 3])),
        call(Whole([[1, 2], [0, 0]]), F((4, 2)), mode="sum", per_sample_weights=F((2, 2))),
        call(Whole([1, 2, 3]), F((4, 2)), Whole([0, 0, 3]), mode="max"),
    )
]

FUNCTIONS = [*ACTIVATIONS, *LOSSES, *CLASS_MARGINS, *DROPOUT, *TABLES]

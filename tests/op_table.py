"""One line per differentiable operation: what its derivatives are checked on.

Random points are kept away from kinks; what happens exactly there is a convention, written down as
`kink(...)` with the gradient PyTorch gives. `INTEGER_OR_CONSTANT` names the operations that have no
derivative, so that no operation of the list can be forgotten.
"""

from __future__ import annotations

from typing import Any

from ._target import weft
from .op_rows import (
    Floats,
    Points,
    Row,
    Whole,
    along,
    binary,
    call,
    kink,
    matrices,
    reduction,
    row,
    several_dims,
    unary,
)
from .op_table_functions import FUNCTIONS
from .op_table_layers import LAYERS
from .op_table_spatial import SPATIAL, SPATIAL_SAME_AS

INF, NAN = float("inf"), float("nan")
F = Floats
P = Points


def functional(name: str) -> Any:
    return lambda *args, **kwargs: getattr(weft.nn.functional, name)(*args, **kwargs)


def method(name: str) -> Any:
    return lambda tensor, *args, **kwargs: getattr(tensor, name)(*args, **kwargs)


def resampled(name: str) -> Any:
    """Overwritten by random numbers, always the same ones: no gradient, but for the factor."""

    def call_in_place(tensor: Any, *args: Any) -> Any:
        generator = weft.Generator().manual_seed(3)
        return getattr(tensor * 1, name)(*args, generator=generator) * tensor

    return call_in_place


POINTWISE = [
    row("abs", unary(avoid=[0.0]), kinks=[kink([0.0, -0.0], gives=[0.0, 0.0])]),
    row("acos", unary(-0.9, 0.9, 0.0)),
    row("acosh", unary(1.2, 3.0)),
    row("asin", unary(-0.9, 0.9, 0.0)),
    row("asinh", unary(-2.0, 2.0, 0.0)),
    row("atan", unary(-2.0, 2.0, 0.0)),
    row("atanh", unary(-0.9, 0.9, 0.0)),
    row("ceil", unary(0.1, 0.9), kinks=[kink([1.0, -2.0], gives=[0.0, 0.0])]),
    row("cos", unary(-4.0, 4.0, 0.0)),
    row("cosh", unary(-2.0, 2.0, 0.0)),
    row("deg2rad", unary()),
    row("digamma", unary(0.3, 4.0, 1.0, 2.0), call(P([-0.5, -1.3]))),
    row("erf", unary(-2.0, 2.0, 0.0)),
    row("erfc", unary(-2.0, 2.0, 0.0)),
    row("erfinv", unary(-0.8, 0.8, 0.0)),
    row("exp", unary(-2.0, 2.0, 0.0), kinks=[kink([-INF, -800.0], gives=[0.0, 0.0])]),
    row("exp2", unary(-2.0, 2.0, 0.0)),
    row("expm1", unary(-2.0, 2.0, 0.0, 1e-3)),
    row("floor", unary(0.1, 0.9), kinks=[kink([1.0, -2.0], gives=[0.0, 0.0])]),
    row("frac", unary(0.1, 0.9)),
    row("lgamma", unary(0.3, 4.0, 1.0, 2.0), call(P([-0.5, -1.3]))),
    row("log", unary(0.2, 3.0, 1.0), kinks=[kink([0.0], gives=[INF])]),
    row("log10", unary(0.2, 3.0, 1.0)),
    row("log1p", unary(-0.7, 3.0, 0.0, 1e-3)),
    row("log2", unary(0.2, 3.0, 1.0)),
    row("logit", unary(0.1, 0.9, 0.5), call(F(low=0.3, high=0.7), 0.2)),
    row("neg", unary(-2.0, 2.0, 0.0)),
    row("positive", unary(-2.0, 2.0, 0.0)),
    row("rad2deg", unary(-0.1, 0.1)),
    row("reciprocal", unary(0.3, 2.0), unary(-2.0, -0.3)),
    row("round", unary(0.1, 0.4), kinks=[kink([0.5, 1.5], gives=[0.0, 0.0])]),
    row("rsqrt", unary(0.3, 3.0, 1.0)),
    row("sgn", unary(0.1, 2.0), kinks=[kink([0.0], gives=[0.0])]),
    row("sigmoid", unary(-4.0, 4.0, 0.0), kinks=[kink([800.0, -800.0], gives=[0.0, 0.0])]),
    row("sign", unary(0.1, 2.0), kinks=[kink([0.0], gives=[0.0])]),
    row("sin", unary(-4.0, 4.0, 0.0)),
    row("sinc", unary(0.2, 3.0), kinks=[kink([0.0], gives=[0.0])]),
    row("sinh", unary(-2.0, 2.0, 0.0)),
    row("sqrt", unary(0.2, 3.0, 1.0), kinks=[kink([0.0], gives=[INF])]),
    row("square", unary(-2.0, 2.0, 0.0)),
    row("tan", unary(-1.2, 1.2, 0.0)),
    row("tanh", unary(-3.0, 3.0, 0.0), kinks=[kink([100.0], gives=[0.0])]),
    row("trunc", unary(0.1, 0.9)),
    row(
        "nan_to_num",
        unary(),
        call(F(), 0.5, 2.0, -2.0),
        kinks=[kink([NAN, INF, -INF, 1.0], gives=[0.0, 0.0, 0.0, 1.0])],
    ),
    row("add", binary(), call(F(), F(), alpha=2.5), call(F(), 2.0)),
    row("sub", binary(), call(F(), F(), alpha=-1.5), call(F(), 2.0)),
    row("rsub", binary(), call(F(), F(), alpha=0.5)),
    row("mul", binary(), call(F(), 3.0), kinks=[kink([0.0], [5.0], gives=([5.0], [0.0]))]),
    row("div", binary(second=(0.4, 2.0)), call(F(), -2.0)),
    row("true_divide", binary(second=(-2.0, -0.4))),
    row(
        "div",
        call(P([5.3, -4.6]), P([2.0, 1.7]), rounding_mode="trunc"),
        call(P([5.3, -4.6]), P([2.0, 1.7]), rounding_mode="floor"),
    ),
    row(
        "remainder",
        call(P([5.3, -4.6, 3.2]), P([2.0, 1.7, -1.5])),
        call(P([[5.3], [-4.6]]), P([2.1, 1.7])),
        call(P([5.3, -4.6]), 2.0),
    ),
    row("fmod", call(P([5.3, -4.6, 3.2]), P([2.0, 1.7, -1.5])), call(P([5.3, -4.6]), 2.0)),
    row(
        "pow",
        binary((0.3, 2.0), (-2.0, 2.0)),
        *(call(F(), exponent) for exponent in (0, 1, 2, 3)),
        call(F(low=0.3), -1.5),
        call(F(low=0.3), 0.5),
        call(2.0, F()),
        call(P([-1.5, -0.5]), P([2.0, 3.0], gradient=False)),
        kinks=[
            kink([0.0, 0.0, 0.0], 2, gives=[0.0, 0.0, 0.0]),
            kink([0.0, 1.0], 1, gives=[1.0, 1.0]),
            kink([0.0, 2.0], 0, gives=[0.0, 0.0]),
            kink([0.0], [0.0], gives=([0.0], [0.0])),
            kink([0.0], [2.0], gives=([0.0], [0.0])),
            kink(0, [1.0, 2.0], gives=[0.0, 0.0]),
        ],
    ),
    row("float_power", binary((0.3, 2.0), (-2.0, 2.0)), call(F(), 2)),
    row("atan2", binary((0.2, 2.0), (-2.0, -0.2)), binary((-2.0, -0.2), (0.2, 2.0))),
    row("copysign", binary((0.3, 2.0), (0.3, 2.0)), binary((-2.0, -0.3), (0.3, 2.0))),
    row("hypot", binary((0.3, 2.0)), kinks=[kink([3.0], [4.0], gives=([0.6], [0.8]))]),
    row("ldexp", call(F(), Whole([1, 0, 3])), call(F((), 0.1, 1.0), Whole(2))),
    row("logaddexp", binary(), kinks=[kink([1000.0], [1000.0], gives=([0.5], [0.5]))]),
    row("logaddexp2", binary(), kinks=[kink([1000.0], [1000.0], gives=([0.5], [0.5]))]),
    row("xlogy", binary(second=(0.3, 2.0))),
    row("lerp", call(F(), F(), 0.3), call(F(), F((3,)), F((2, 1), 0.1, 0.9)), call(F(), F(), 0.8)),
    row("addcmul", call(F(), F((3,)), F((2, 1))), call(F(), F(), F(), value=-0.5)),
    row(
        "addcdiv",
        call(F(), F((3,)), F((2, 1), 0.5, 2.0)),
        call(F(), F(), F(low=0.5), value=-0.5),
    ),
    row(
        "where",
        call(Whole([[True, False, True]], "bool"), F(), F((3,))),
        call(Whole(True, "bool"), F(()), 2.0),
        call(Whole([], "bool"), F((0,)), F((0,))),
    ),
]

SELECTIONS = [
    row(
        "maximum",
        call(P([1.0, 5.0, -2.0]), P([2.0, 3.0, -1.0])),
        call(P([[1.0], [5.0]]), P([2.0, 3.0])),
        kinks=[
            kink([1.0, 2.0], [1.0, 0.0], gives=([0.5, 1.0], [0.5, 0.0])),
        ],
    ),
    row(
        "minimum",
        call(P([1.0, 5.0, -2.0]), P([2.0, 3.0, -1.0])),
        kinks=[kink([1.0, 2.0], [1.0, 0.0], gives=([0.5, 0.0], [0.5, 1.0]))],
    ),
    row(
        "fmax",
        call(P([1.0, 5.0, -2.0]), P([2.0, 3.0, -1.0])),
        kinks=[kink([1.0, NAN], [1.0, 2.0], gives=([1.0, 0.0], [0.0, 1.0]))],
    ),
    row(
        "fmin",
        call(P([1.0, 5.0, -2.0]), P([2.0, 3.0, -1.0])),
        kinks=[kink([1.0, NAN], [1.0, 2.0], gives=([1.0, 0.0], [0.0, 1.0]))],
    ),
    row(
        "clamp",
        call(F(avoid=(-1.0, 1.0)), -1.0, 1.0),
        call(F(avoid=(0.5,)), min=0.5),
        call(F(avoid=(0.5,)), max=0.5),
        call(P([0.1, 3.0, -3.0]), P([-1.0, -1.0, -1.0]), P([1.0, 2.0, 2.0])),
        kinks=[
            kink([-1.0, 1.0, 2.0], -1.0, 1.0, gives=[1.0, 1.0, 0.0]),
            kink([0.0, 1.0], 2.0, 1.0, gives=[0.0, 0.0]),
        ],
    ),
    row("clamp_min", call(F(avoid=(0.5,)), 0.5), kinks=[kink([0.5], 0.5, gives=[1.0])]),
    row("clamp_max", call(F(avoid=(0.5,)), 0.5), kinks=[kink([0.5], 0.5, gives=[1.0])]),
    row(
        "amax",
        reduction(empty=False),
        several_dims(),
        kinks=[
            kink([1.0, 3.0, 3.0], gives=[0.0, 0.5, 0.5]),
            kink([[1.0, 1.0], [2.0, 3.0]], 1, gives=[[0.5, 0.5], [0.0, 1.0]]),
        ],
    ),
    row(
        "amin",
        reduction(empty=False),
        several_dims(),
        kinks=[kink([1.0, 1.0, 3.0], gives=[0.5, 0.5, 0.0])],
    ),
    row("aminmax", call(F()), call(F(), dim=0), call(F(), dim=1, keepdim=True)),
    row(
        "max",
        reduction(empty=False),
        call(F(), F((3,), 0.1, 1.7)),
        kinks=[
            kink([1.0, 3.0, 3.0], gives=[0.0, 0.5, 0.5]),
            kink([1.0, 3.0, 3.0], 0, gives=[0.0, 1.0, 0.0]),
        ],
    ),
    row(
        "min",
        reduction(empty=False),
        kinks=[
            kink([1.0, 1.0, 3.0], gives=[0.5, 0.5, 0.0]),
            kink([1.0, 1.0, 3.0], 0, gives=[1.0, 0.0, 0.0]),
        ],
    ),
    row(
        "median",
        call(F((5,))),
        call(F((4,))),
        call(F((3, 3)), 0),
        call(F((2, 4), layout="transposed"), 1, True),
    ),
    row("sort", call(F()), call(F(), 0, True), call(F((3,), layout="stepped")), call(F((0,)))),
    row("topk", call(F((5,)), 2), call(F((2, 4)), 3, -1, False), call(F((3, 2)), 1, 0)),
    row("cummax", along(), kinks=[kink([1.0, 1.0, 0.0], 0, gives=[1.0, 2.0, 0.0])]),
    row("cummin", along(), kinks=[kink([1.0, 1.0, 2.0], 0, gives=[1.0, 2.0, 0.0])]),
]

REDUCTIONS = [
    row("sum", reduction(), several_dims(), call(F((0,)))),
    row("mean", reduction(empty=False), several_dims()),
    row("nansum", reduction(), kinks=[kink([1.0, NAN], gives=[1.0, 0.0])]),
    row("nanmean", reduction(empty=False), kinks=[kink([1.0, NAN, 2.0], gives=[0.5, 0.0, 0.5])]),
    row(
        "prod",
        reduction(),
        call(P([0.0, 2.0, 3.0])),
        call(P([0.0, 0.0, 3.0])),
        call(P([0.0, 0.0, 0.0])),
        call(P([[0.0, 2.0], [3.0, 4.0]]), 1),
        call(P([[0.0, 2.0, 0.0], [3.0, 4.0, 5.0]]), 1, True),
        call(F((0,))),
    ),
    row("std", reduction(empty=False)[:4], call(F((5,)), correction=0), call(F(), (0, 1))),
    row("var", reduction(empty=False)[:4], call(F((5,)), correction=0), call(F(), (0, 1))),
    row("std_mean", call(F((4,))), call(F((4, 2)), 0), call(F((4, 2)), 1, correction=0)),
    row("var_mean", call(F((4,))), call(F((4, 2)), 0), call(F((4, 2)), 1, correction=0)),
    row(
        "norm",
        call(F((4,))),
        call(F(), 2, 0),
        call(F(), 1),
        call(F(low=0.2), 3, 1, True),
        call(P([3.0, -5.0, 1.0]), INF),
        kinks=[kink([0.0, 0.0], gives=[0.0, 0.0])],
    ),
    row(
        "linalg.vector_norm",
        call(F((4,))),
        call(F(), 2, 0),
        call(F(low=0.2), 1),
        call(F(low=0.2), 3, (0, 1)),
        call(P([3.0, -5.0, 1.0]), INF),
        call(P([3.0, -5.0, 1.0]), -INF),
        call(F(low=0.2), 0.5, 1, True),
        kinks=[kink([0.0, 0.0], gives=[0.0, 0.0]), kink([1.0, 0.0], 0, gives=[0.0, 0.0])],
    ),
    row(
        "logsumexp",
        reduction()[1:4],
        call(F(), (0, 1)),
        call(F(()), 0),
        kinks=[kink([1000.0, 1000.0], 0, gives=[0.5, 0.5])],
    ),
    row("cumsum", along()),
    row(
        "cumprod",
        along(),
        call(P([2.0, 0.0, 3.0]), 0),
        call(P([0.0, 0.0, 3.0]), 0),
        call(P([[2.0, 0.0], [0.0, 3.0]]), 1),
        call(P([1.0, 2.0, 0.0]), 0),
    ),
    row("logcumsumexp", along()),
    row("softmax", along(), kinks=[kink([1000.0, 0.0], 0, gives=[0.0, 0.0])]),
    row("log_softmax", along()),
    row("diff", call(F((4,))), call(F((3, 4)), 2, 0), call(F((3,)), prepend=F((2,)))),
    row("trace", call(F((3, 3))), call(F((2, 3))), call(F((3, 2), layout="transposed"))),
]

INDEXING = [
    row(
        "__getitem__",
        call(F(), 1),
        call(F(), (slice(None), 1)),
        call(F(), (..., None, slice(0, 2))),
    ),
    row(
        "__getitem__",
        call(F((3,)), Whole([0, 2, 0])),
        call(F(), Whole([[True, False, True]] * 2, "bool")),
    ),
    row("index_select", call(F(), 1, Whole([2, 0, 2])), call(F((3,)), 0, Whole([], "int64"))),
    row("gather", call(F(), 1, Whole([[0, 0], [2, 1]])), call(F(()), 0, Whole(0))),
    row("scatter", call(F(), 1, Whole([[0, 2]]), F((1, 2))), call(F(), 0, Whole([[1, 0, 1]]), 2.5)),
    row("scatter_add", call(F(), 1, Whole([[0, 0], [2, 0]]), F((2, 2)))),
    row(
        "scatter_reduce",
        *(
            call(F((3,), 0.5), 0, Whole([0, 0, 2]), F((3,), 2.5, 4.0), reduce, include_self=own)
            for reduce in ("sum", "prod", "mean", "amax", "amin")
            for own in (True, False)
        ),
    ),
    row(
        "masked_select",
        call(F(), Whole([[True, False, True]] * 2, "bool")),
        call(F(), Whole([True, False, True], "bool")),
    ),
    row(
        "masked_fill",
        call(F(), Whole([True, False, True], "bool"), 2.0),
        call(F(), Whole(True, "bool"), F(())),
    ),
    row("masked_scatter", call(F(), Whole([[True, False, True]] * 2, "bool"), F((5,)))),
    row(
        "index_put",
        call(F(), (Whole([0, 1]), Whole([2, 1])), F((2,))),
        call(F(), (Whole([0, 0]), Whole([2, 2])), F((2,)), True),
        call(F(), (Whole([1, 0]),), F((3,)), True),
    ),
    row(
        "index_add",
        call(F(), 1, Whole([0, 0]), F((2, 2))),
        call(F(), 0, Whole([1]), F((1, 3)), alpha=-2.0),
    ),
    row("index_copy", call(F(), 1, Whole([2, 0]), F((2, 2)))),
    row("index_fill", call(F(), 1, Whole([2, 0]), 1.5), call(F(), 0, Whole([1]), F(()))),
    row("take", call(F(), Whole([0, 5, 5])), call(F(layout="transposed"), Whole([[1, -1]]))),
    row("take_along_dim", call(F(), Whole([[0], [2]]), 1), call(F(), Whole([0, 5]))),
    row("repeat_interleave", call(F((3,)), 2), call(F(), Whole([1, 0, 2]), 1)),
    row("tril", call(F((3, 3))), call(F((2, 3)), 1), call(F((2, 3, 2), layout="stepped"), -1)),
    row("triu", call(F((3, 3))), call(F((2, 3)), 1), call(F((2, 3, 2), layout="stepped"), -1)),
    row("slice_scatter", call(F((4, 2)), F((2, 2)), 0, 0, 4, 2)),
    row("select_scatter", call(F(), F((3,)), 0, 1)),
    row("diagonal_scatter", call(F((3, 3)), F((2,)), 1)),
]

SHAPES = [
    row("reshape", call(F(), (3, 2)), call(F(layout="transposed"), (-1,)), call(F((0, 2)), (2, 0))),
    row("reshape_as", call(F(), F((6,), gradient=False)), function=method("reshape_as")),
    row("view", call(F(), 6), call(F((2, 1, 3)), 2, -1), function=method("view")),
    row("view_as", call(F(), F((3, 2), gradient=False)), function=method("view_as")),
    row("flatten", call(F((2, 1, 3)), 1), call(F(layout="transposed")), call(F(()))),
    row("unflatten", call(F((2, 6)), 1, (2, -1))),
    row("ravel", call(F(layout="transposed"))),
    row("squeeze", call(F((2, 1, 3))), call(F((2, 1, 3)), 1), call(F((1, 2, 1)), (0, 2))),
    row("unsqueeze", call(F(), 1), call(F(()), -1)),
    row("transpose", call(F((2, 3, 2)), 0, -1), call(F(()), 0, 0)),
    row("permute", call(F((2, 3, 2)), (2, 0, 1))),
    row("t", call(F()), call(F((3,)))),
    row("T", call(F()), function=lambda x: x.T),
    row("mT", call(F((2, 3, 2))), function=lambda x: x.mT),
    row("H", call(F()), function=lambda x: x.H),
    row("movedim", call(F((2, 3, 2)), 0, 2), call(F((2, 3, 2)), (0, 1), (1, 2))),
    row("expand", call(F((3, 1)), 2, 3, 4), call(F(()), 2), function=method("expand")),
    row("expand_as", call(F((1, 3)), F((2, 3), gradient=False)), function=method("expand_as")),
    row("broadcast_to", call(F((3, 1)), (2, 3, 4)), call(F((1,)), (0,))),
    row("broadcast_tensors", call(F((3, 1)), F((2,)))),
    row("atleast_1d", call(F(()))),
    row("atleast_2d", call(F((3,)))),
    row("atleast_3d", call(F((3,)))),
    row("cat", call([F(), F((1, 3))], 0), call([F(), F((2, 0)), F((2, 1))], 1), call([F((3,))])),
    row("stack", call([F(), F()], 1), call([F(()), F(())])),
    row("hstack", call([F(), F((2, 1))])),
    row("vstack", call([F((3,)), F()])),
    row("dstack", call([F(), F()])),
    row("column_stack", call([F((2,)), F((2, 2))])),
    row("chunk", call(F((5,)), 2), call(F(), 3, 1)),
    row("split", call(F((5,)), 2), call(F((5, 2)), [1, 4], 0)),
    row("split_with_sizes", call(F((5, 2)), [1, 4])),
    row("tensor_split", call(F((5, 2)), 3), call(F((5,)), (1, 3))),
    row("hsplit", call(F((2, 4)), 2)),
    row("vsplit", call(F((4, 2)), 2)),
    row("unbind", call(F()), call(F((2, 3, 2)), 1)),
    row("roll", call(F(), 1), call(F(), (1, -1), (0, 1))),
    row("flip", call(F(), (0,)), call(F((2, 3, 2)), (0, -1))),
    row("fliplr", call(F())),
    row("flipud", call(F())),
    row("rot90", call(F()), call(F((2, 3, 2)), 3, (0, 2))),
    row("tile", call(F(), (2,)), call(F((3,)), (2, 2))),
    row("repeat", call(F(), 2, 1), call(F((2,)), 2, 0, 3), function=method("repeat")),
    row("narrow", call(F(), 1, 1, 2), call(F((3,)), 0, 1, 0)),
    row("select", call(F(), 1, -1)),
    row("slice", call(F()), function=lambda x: x[..., 0:3:2]),
    row("unfold", call(F((5,)), 0, 2, 1), call(F((3, 4)), 1, 3, 1), function=method("unfold")),
    row("diag", call(F((3,))), call(F((3, 3)), 1), call(F((2,)), -1)),
    row("diagonal", call(F((3, 3))), call(F((2, 3, 2)), 1, 1, 2)),
    row("diag_embed", call(F((2, 3))), call(F((2,)), 1)),
    row("diagflat", call(F((2, 2)))),
    row("as_strided", call(F((6,)), (2, 2), (2, 1), 1), call(F((6,)), (3, 3), (1, 1))),
    row("contiguous", call(F(layout="transposed")), function=method("contiguous")),
    row("clone", call(F()), call(F(layout="transposed"))),
    row("meshgrid", call(F((2,)), F((3,)), indexing="ij"), call(F((2,)), F((3,)), indexing="xy")),
    row("block_diag", call(F(), F((1, 2)), F(()))),
    row("cartesian_prod", call(F((2,)), F((3,)))),
    row("combinations", call(F((3,))), call(F((3,)), 2, True)),
    row("fill", call(F(), 2.0), call(F(), F(()))),
    row("zero_", call(F()), function=lambda x: x.clone().zero_() * x),
    row("to", call(F()), function=lambda x: x.to(weft.float64, copy=True)),
    row("double", call(F()), function=lambda x: x.double() * 1),
]

PRODUCTS = [
    row(
        "matmul",
        matrices(
            ((2, 3), (3, 2)),
            ((3,), (3,)),
            ((2, 3), (3,)),
            ((3,), (3, 2)),
            ((2, 2, 3), (3, 2)),
            ((2, 1, 2, 3), (2, 3, 1)),
            ((0, 3), (3, 2)),
            ((2, 0), (0, 2)),
        ),
    ),
    row("mm", matrices(((2, 3), (3, 2)), ((2, 0), (0, 3)))),
    row("bmm", matrices(((2, 2, 3), (2, 3, 2)), ((0, 2, 3), (0, 3, 2)))),
    row("mv", matrices(((2, 3), (3,)))),
    row("dot", matrices(((3,), (3,)), ((0,), (0,)))),
    row("vdot", matrices(((3,), (3,)))),
    row("inner", matrices(((2, 3), (4, 3)), ((3,), (3,)))),
    row("outer", matrices(((2,), (3,)), ((0,), (3,)))),
    row(
        "addmm",
        matrices(((2, 2), (2, 3), (3, 2))),
        call(F((2,)), F((2, 3)), F((3, 2)), beta=0.5, alpha=-2.0),
    ),
    row("addmv", matrices(((2,), (2, 3), (3,)))),
    row("addbmm", matrices(((2, 2), (2, 2, 3), (2, 3, 2)))),
    row("addr", matrices(((2, 3), (2,), (3,))), call(F(), F((2,)), F((3,)), beta=0.5, alpha=2.0)),
    row("baddbmm", matrices(((2, 2, 2), (2, 2, 3), (2, 3, 2)))),
    row(
        "einsum",
        call("ij,jk->ik", F(), F((3, 2))),
        call("ii->i", F((3, 3))),
        call("bij,bkj->bik", F((2, 2, 3)), F((2, 2, 3))),
        call("i,j", F((2,)), F((3,))),
        call("...i,i->...", F(), F((3,))),
    ),
    row("tensordot", call(F((2, 3, 2)), F((3, 2, 2)), 2), call(F(), F((3, 2)), ([1], [0]))),
    row("kron", call(F((2, 2)), F((1, 3))), call(F((2,)), F((3,)))),
    row("__rmatmul__", call(F((3, 2)), F()), function=lambda a, b: b @ a),
    row(
        "nn.functional.linear",
        call(F(), F((4, 3)), F((4,))),
        call(F((3,)), F((4, 3))),
        call(F((2, 2, 3)), F((1, 3)), F((1,))),
    ),
]

NETWORK = [
    row("nn.functional.relu", unary(avoid=[0.0]), kinks=[kink([0.0, -0.0], gives=[0.0, 0.0])]),
    row(
        "nn.functional.leaky_relu",
        unary(avoid=[0.0]),
        call(F(avoid=(0.0,)), 0.3),
        kinks=[kink([0.0], gives=[0.01])],
    ),
    row(
        "nn.functional.elu",
        unary(avoid=[0.0]),
        call(F(avoid=(0.0,)), 0.5),
        kinks=[kink([0.0], 1.5, gives=[1.5])],
    ),
    row(
        "nn.functional.gelu",
        unary(-3.0, 3.0, 0.0),
        call(F(), approximate="tanh"),
        call(P([0.0, 1.0]), approximate="tanh"),
    ),
    row("nn.functional.silu", unary(-3.0, 3.0, 0.0)),
    row(
        "nn.functional.softplus",
        unary(-3.0, 3.0, 0.0),
        call(F((3,), 19.0, 19.9)),
        call(F(), 2.0, 5.0),
        kinks=[kink([20.0, 21.0], gives=[1.0, 1.0])],
    ),
    row(
        "nn.functional.logsigmoid",
        unary(-3.0, 3.0, 0.0),
        kinks=[kink([-800.0, 800.0], gives=[1.0, 0.0])],
    ),
    row(
        "nn.functional.hardtanh",
        unary(avoid=[-1.0, 1.0]),
        kinks=[kink([-1.0, 1.0, 0.5], gives=[0.0, 0.0, 1.0])],
    ),
    row(
        "nn.functional.relu6",
        unary(-1.0, 7.0, avoid=[0.0, 6.0]),
        kinks=[kink([0.0, 6.0, 3.0], gives=[0.0, 0.0, 1.0])],
    ),
    row(
        "nn.functional.glu",
        call(F((2, 4))),
        call(F((4, 3)), 0),
        call(F((2, 4), layout="transposed"), -1),
    ),
    row("nn.functional.softmin", call(F(), 1), call(F(), 0)),
    row(
        "nn.functional.pad",
        call(F(), (1, 2)),
        call(F(), (-1, 1, 0, 2), "constant", 0.5),
        call(F((1, 2, 4)), (2, 1), "reflect"),
        call(F((1, 2, 4)), (2, 1), "replicate"),
        call(F((1, 2, 4)), (2, 1), "circular"),
    ),
    row("nn.functional.normalize", call(F()), call(F(), 1.0, 0), call(F(), 3.0)),
    row(
        "nn.functional.cosine_similarity",
        call(F(), F()),
        call(F(), F((3,)), 1),
        call(F((2, 2)), F((2, 2)), 0),
    ),
    row(
        "nn.functional.cross_entropy",
        *(
            call(F((3, 4)), Whole([1, 0, 3]), reduction=how, **more)
            for how in ("mean", "sum", "none")
            for more in ({}, {"label_smoothing": 0.1}, {"ignore_index": 0})
        ),
        call(F((3, 4)), F((3, 4), 0.1, 0.9)),
        call(F((4,)), Whole(2)),
        call(F((2, 3, 2)), Whole([[0, 1], [2, 0]])),
        call(F((3, 4)), Whole([1, 0, 3]), F((4,), 0.5, 2.0, gradient=False)),
    ),
    row(
        "nn.functional.nll_loss",
        *(call(F((3, 4)), Whole([1, 0, 3]), reduction=how) for how in ("mean", "sum", "none")),
        call(F((3, 4)), Whole([1, 0, 3]), F((4,), 0.5, 2.0, gradient=False)),
        call(F((3, 4)), Whole([1, -100, 3])),
    ),
    row(
        "nn.functional.mse_loss",
        *(call(F(), F(), reduction=how) for how in ("mean", "sum", "none")),
    ),
    row(
        "nn.functional.l1_loss",
        *(call(F(low=0.1), F(high=-0.1), reduction=how) for how in ("mean", "sum", "none")),
        kinks=[kink([1.0], [1.0], gives=([0.0], [0.0]))],
    ),
    row(
        "nn.functional.smooth_l1_loss",
        *(
            call(F(low=0.1, high=0.4), F(low=-0.4, high=-0.1), reduction=how)
            for how in ("mean", "sum", "none")
        ),
        call(F(low=2.0, high=3.0), F(low=-1.0, high=-0.1), beta=0.5),
        kinks=[kink([1.0, 2.0], [1.0, 1.0], gives=([0.0, 0.5], [0.0, -0.5]))],
    ),
    row(
        "nn.functional.huber_loss",
        *(
            call(F(low=0.1, high=0.4), F(low=-0.4, high=-0.1), reduction=how)
            for how in ("mean", "sum", "none")
        ),
        call(F(low=2.0, high=3.0), F(low=-1.0, high=-0.1), delta=0.5),
    ),
    row(
        "nn.functional.binary_cross_entropy",
        *(
            call(F(low=0.1, high=0.9), F(low=0.1, high=0.9, gradient=False), reduction=how)
            for how in ("mean", "sum", "none")
        ),
        call(
            F(low=0.1, high=0.9),
            F(low=0.1, high=0.9, gradient=False),
            F((3,), 0.5, 2.0, gradient=False),
        ),
    ),
    row(
        "nn.functional.binary_cross_entropy_with_logits",
        *(
            call(F(), F(low=0.1, high=0.9, gradient=False), reduction=how)
            for how in ("mean", "sum", "none")
        ),
        call(
            F(), F(low=0.1, high=0.9, gradient=False), pos_weight=F((3,), 0.5, 2.0, gradient=False)
        ),
        kinks=[kink([1000.0, -1000.0], [1.0, 0.0], gives=([0.0, 0.0], [-500.0, 500.0]))],
    ),
    row(
        "nn.functional.kl_div",
        *(
            call(F(), F(low=0.1, high=0.9), reduction=how)
            for how in ("mean", "sum", "none", "batchmean")
        ),
        call(F(), F(), log_target=True),
    ),
]

# Operations of the registry beyond the engine's list.
BEYOND_THE_LIST = [
    row("cauchy", call(F()), function=resampled("cauchy_")),
    row("geometric", call(F(), 0.4), function=resampled("geometric_")),
    row("log_normal", call(F()), call(F(), 0.5, 0.1), function=resampled("log_normal_")),
    row("random", call(F()), call(F(), 5), call(F(), 2, 7), function=resampled("random_")),
    row(
        "constant_pad_nd",
        call(F(), (1, 2)),
        call(F(layout="transposed"), (-1, 1, 0, 2), 0.5),
        call(F((2, 3, 2), layout="stepped"), (0, -1, 1, 0), -2.0),
        call(F((0, 2)), (1, 1)),
        call(F(()), ()),
    ),
    row(
        "copy",
        call(F(), F()),
        call(F(layout="transposed"), F((3,))),
        call(F((2,)), F(())),
        call(F(), 2.5),
        call(F((0, 3)), F((3,))),
        function=lambda x, source: (x * 1).copy_(source),
    ),
    row("cpu", call(F()), function=lambda x: x.cpu() * 1),
    row("type_as", call(F(), F(gradient=False)), function=lambda x, y: x.type_as(y) * 1),
    row(
        "nn.functional.embedding",
        call(Whole([2, 0, 2]), F((3, 2))),
        call(Whole([[1], [2]]), F((3, 2), layout="transposed")),
        call(Whole([2, 1, 2]), F((3, 2)), padding_idx=0),
        call(Whole([], "int64"), F((3, 2))),
        call(Whole(1), F((3, 2))),
    ),
    row(
        "kthvalue",
        call(F((5,)), 2),
        call(F(), 1, 0),
        call(F(layout="transposed"), 3, 1, True),
        call(F(()), 1),
        kinks=[kink([1.0, 1.0, 3.0], 2, gives=[0.0, 1.0, 0.0])],
    ),
    row(
        "nanmedian",
        call(F((5,))),
        call(F((3, 3)), 0),
        call(F((2, 4), layout="transposed"), 1, True),
        kinks=[kink([NAN, 2.0, 1.0], gives=[0.0, 0.0, 1.0])],
    ),
    row(
        "put",
        call(F(), Whole([0, 5]), F((2,))),
        call(F(layout="transposed"), Whole([[1], [-1]]), F((2, 1))),
        call(F(), Whole([0, 5, 5]), F((3,)), True),
        function=method("put"),
    ),
    *SPATIAL,
    *LAYERS,
    *FUNCTIONS,
]

TABLE: list[Row] = [
    *POINTWISE,
    *SELECTIONS,
    *REDUCTIONS,
    *INDEXING,
    *SHAPES,
    *PRODUCTS,
    *NETWORK,
    *BEYOND_THE_LIST,
]

# Registered operations that are reached through another one, whose row checks the derivative.
SAME_AS = {
    "_index_put": "index_put",
    "adjoint": "H",
    "concat": "cat",
    "concatenate": "cat",
    "cuda": "to",
    "embedding": "nn.functional.embedding",
    "linalg_vector_norm": "linalg.vector_norm",
    "moveaxis": "movedim",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "zero": "zero_",
    **SPATIAL_SAME_AS,
}

# Operators whose derivative is another row's, reached by syntax.
SYNTAX = {
    "__radd__", "__rdiv__", "__rmod__", "__rmul__", "__rpow__", "__rsub__",
}  # fmt: skip

INTEGER_OR_CONSTANT = {
    "signbit", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "bitwise_not", "logical_not",
    "floor_divide", "heaviside", "gcd", "lcm", "__rand__", "__ror__", "__rxor__", "eq", "ne", "lt",
    "le", "gt", "ge", "isclose", "allclose", "equal", "logical_and", "logical_or", "logical_xor",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift",
    "argmax", "argmin", "all", "any", "count_nonzero", "nonzero", "argwhere", "argsort", "unique",
    "searchsorted", "bucketize", "bincount", "broadcast_shapes", "item", "zeros", "ones", "full",
    "eye", "arange", "linspace", "logspace", "empty", "empty_like", "zeros_like", "ones_like",
    "full_like", "new_zeros", "new_ones", "new_full", "new_empty", "rand_like", "randn",
    "randn_like", "randint", "randint_like", "bernoulli", "multinomial", "normal", "uniform",
    "exponential", "triu_indices", "tril_indices", "scalar_tensor", "bool", "byte", "short", "int",
    "long", "char", "half", "float", "bfloat16", "nn.functional.one_hot",
}  # fmt: skip

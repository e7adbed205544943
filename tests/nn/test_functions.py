"""Activations and losses made of other operations: derivatives of both orders, and the edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from .._target import IS_WEFT, weft, weft_only

nn, F = weft.nn, weft.nn.functional
inf, nan = math.inf, math.nan


def points(*shape: int, seed: int = 0) -> Any:
    """Numbers that stay away from the kinks at whole and half numbers."""
    weft.manual_seed(seed)
    values = weft.randn(shape, dtype=weft.float64) * 3
    near = (values * 2).round() / 2
    away = weft.where((values - near).abs() < 0.05, near + 0.1, values)
    return away.requires_grad_()


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "celu": lambda x: F.celu(x, 1.5),
    "selu": F.selu,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "mish": F.mish,
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "hardshrink": lambda x: F.hardshrink(x, 0.5),
    "softshrink": lambda x: F.softshrink(x, 0.5),
    "threshold": lambda x: F.threshold(x, 0.5, 20.0),
    "rrelu": F.rrelu,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_derivatives_of_activations(name: str) -> None:
    function, x = ACTIVATIONS[name], points(12)
    assert weft.autograd.gradcheck(function, (x,))
    if IS_WEFT or name not in ONLY_WEFT_TWICE:
        assert weft.autograd.gradgradcheck(function, (x,))


def test_derivatives_of_prelu() -> None:
    for shape, slopes in (((4,), 1), ((3, 5), 5), ((2, 3, 4), 3), ((2, 3), 1)):
        inputs = points(*shape), points(slopes, seed=1)
        assert weft.autograd.gradcheck(F.prelu, inputs)
        assert weft.autograd.gradgradcheck(F.prelu, inputs)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (F.celu, [-1.0, 0.0, inf, nan]),
        (F.selu, [-1.0507009873554805 * 1.6732632423543772, 0.0, inf, nan]),
        (F.hardsigmoid, [0.0, 0.5, 1.0, nan]),
        (F.softsign, [nan, 0.0, nan, nan]),
        (F.hardshrink, [-inf, 0.0, inf, nan]),
        (F.softshrink, [-inf, 0.0, inf, nan]),
        (lambda x: F.threshold(x, 1.0, 7.0), [7.0, 7.0, inf, nan]),
        (lambda x: F.prelu(x, weft.tensor(0.5, dtype=x.dtype)), [-inf, 0.0, inf, nan]),
    ],
)
def test_edges(function: Callable[[Any], Any], expected: list[float]) -> None:
    x = weft.tensor([-inf, 0.0, inf, nan], dtype=weft.float64)
    assert function(x).tolist() == pytest.approx(expected, nan_ok=True)


def test_gradients_far_out_are_finite() -> None:
    x = weft.tensor([-1e4, 1e4], dtype=weft.float64, requires_grad=True)
    for function, expected in ((F.celu, [0, 1]), (F.hardswish, [0, 1]), (F.mish, [0, 1])):
        (slope,) = weft.autograd.grad(function(x).sum(), x)
        assert slope.tolist() == pytest.approx(expected), function


def test_in_place_activations() -> None:
    for name in ("celu", "selu", "hardsigmoid", "hardswish", "mish", "rrelu"):
        function = getattr(F, name)
        leaf = points(8)
        x = leaf * 1
        result = function(x, inplace=True)
        assert result is x
        assert weft.allclose(result, function(leaf)), name
        (slope,) = weft.autograd.grad(result.sum(), leaf)
        (expected,) = weft.autograd.grad(function(leaf).sum(), leaf)
        assert weft.allclose(slope, expected), name
    x = points(4).detach()
    assert F.threshold_(x, 0.0, 1.0) is x and F.celu_(x) is x and F.selu_(x) is x


def test_random_slopes() -> None:
    x = weft.full((10_000,), -1.0)
    slopes = -F.rrelu(x, 0.2, 0.4, training=True)
    assert float(slopes.min()) >= 0.2 and float(slopes.max()) <= 0.4
    assert abs(float(slopes.mean()) - 0.3) < 0.01
    assert F.rrelu(-x, 0.2, 0.4, training=True).tolist() == [1.0] * 10_000
    assert F.rrelu(x[:1], 0.2, 0.4).item() == pytest.approx(-0.3)


def test_gumbel_softmax() -> None:
    weft.manual_seed(0)
    logits = weft.tensor([1.0, 2.0, 0.0]).repeat(20_000, 1).requires_grad_()
    drawn = F.gumbel_softmax(logits, tau=0.5, hard=True)
    assert bool((drawn.sum(1) == 1).all()) and bool(((drawn == 0) | (drawn == 1)).all())
    shares = drawn.mean(0).detach()
    assert weft.allclose(shares, weft.softmax(logits[0], 0).detach(), atol=0.02)
    drawn[:, 0].sum().backward()
    assert bool((logits.grad != 0).any())


COUNTS = weft.arange(12, dtype=weft.float64).reshape(3, 4)
# PyTorch has no second derivative of these.
ONLY_WEFT_TWICE = {"hardsigmoid", "multi_margin", "multilabel_margin"}
LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "margin_ranking": lambda x, y: F.margin_ranking_loss(x, y, (x.detach() > 0) * 2.0 - 1, 0.3),
    "cosine_embedding": lambda x, y: F.cosine_embedding_loss(
        x, y, weft.tensor([1.0, -1.0, 1.0]), 0.1
    ),
    "hinge_embedding": lambda x, y: F.hinge_embedding_loss(x, (y.detach() > 0) * 2.0 - 1),
    "triplet_margin": lambda x, y: F.triplet_margin_loss(x, y, x * y, margin=2.0, swap=True),
    "poisson": lambda x, y: F.poisson_nll_loss(x, COUNTS, full=True) * y.sum(),
    "poisson_rate": lambda x, y: F.poisson_nll_loss(x.square(), COUNTS, log_input=False) * y.sum(),
    "gaussian": lambda x, y: F.gaussian_nll_loss(x, y, x.square() + 0.5, full=True),
    "soft_margin": lambda x, y: F.soft_margin_loss(x, (y.detach() > 0) * 2.0 - 1),
    "multilabel_soft_margin": lambda x, y: F.multilabel_soft_margin_loss(x, (y.detach() > 0) * 1.0),
    "multi_margin": lambda x, y: F.multi_margin_loss(x, weft.tensor([0, 3, 1]), p=2, margin=2.0),
    "multilabel_margin": lambda x, y: F.multilabel_margin_loss(
        x, weft.tensor([[3, 0, -1, 1], [-1, 1, 2, 3], [0, 1, 2, 3]])
    ),
    "pairwise_distance": lambda x, y: F.pairwise_distance(x, y, p=3.0).sum(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_of_losses(name: str) -> None:
    inputs = points(3, 4, seed=2), points(3, 4, seed=3)
    assert weft.autograd.gradcheck(LOSSES[name], inputs)
    if IS_WEFT or name not in ONLY_WEFT_TWICE:
        assert weft.autograd.gradgradcheck(LOSSES[name], inputs)


def test_losses_by_hand() -> None:
    x = weft.tensor([[0.1, 0.2, 0.4, 0.8]])
    listed = weft.tensor([[3, 0, -1, 1]])
    # Classes 3 and 0 against 1 and 2: (0.4 + 0.6 + 1.1 + 1.3) / 4.
    assert F.multilabel_margin_loss(x, listed).item() == pytest.approx(0.85)
    # Class 2 against the others: (0.7 + 0.8 + 1.4) / 4.
    assert F.multi_margin_loss(x, weft.tensor([2])).item() == pytest.approx(0.725)
    weighted = F.multi_margin_loss(x, weft.tensor([2]), weight=weft.tensor([1.0, 1, 2, 1]))
    assert weighted.item() == pytest.approx(1.45)
    a, b = weft.tensor([[1.0, 0.0]]), weft.tensor([[0.6, 0.8]])
    assert F.cosine_embedding_loss(a, b, weft.tensor([1])).item() == pytest.approx(0.4)
    assert F.cosine_embedding_loss(a, b, weft.tensor([-1]), 0.5).item() == pytest.approx(0.1)
    assert F.hinge_embedding_loss(a, weft.tensor([[1.0, -1.0]])).item() == pytest.approx(1.0)


def test_gaussian_variance() -> None:
    x, y = weft.zeros(2, 3), weft.ones(2, 3)
    full = F.gaussian_nll_loss(x, y, weft.full((2, 3), 0.25)).item()
    assert full == pytest.approx(0.5 * (4 + math.log(0.25)))
    for var in (0.25, weft.full((2,), 0.25), weft.full((2, 1), 0.25)):
        assert F.gaussian_nll_loss(x, y, var).item() == pytest.approx(full)
    for bad in (weft.ones(3), weft.ones(3, 3)):
        with pytest.raises(ValueError, match="var is of incorrect size"):
            F.gaussian_nll_loss(x, y, bad)
    for bad in (-1.0, weft.full((2, 3), -1.0)):
        with pytest.raises(ValueError, match="var has negative"):
            F.gaussian_nll_loss(x, y, bad)
    # Below the bound the gradient still goes through.
    var = weft.zeros(2, 3, requires_grad=True)
    F.gaussian_nll_loss(x, y, var, eps=0.5).backward()
    assert bool((var.grad != 0).all())


@weft_only  # PyTorch divides by how often some other row was read
def test_gradients_of_a_bag_by_frequency() -> None:
    table = weft.zeros(5, 2, requires_grad=True)
    bags = F.embedding_bag(
        weft.tensor([1, 2, 1, 4]),
        table,
        weft.tensor([0, 3]),
        mode="sum",
        scale_grad_by_freq=True,
    )
    bags.sum().backward()
    assert table.grad[:, 0].tolist() == [0, 1, 1, 0, 1]


def test_bags_without_members() -> None:
    table = weft.ones(5, 2)
    for mode in ("sum", "mean", "max"):
        out = F.embedding_bag(weft.tensor([1]), table, weft.tensor([0, 0, 1]), mode=mode)
        assert out.tolist() == [[0, 0], [1, 1], [0, 0]]


def test_errors() -> None:
    x = weft.ones(3, 4)
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: F.celu(x, 0.0), RuntimeError, "alpha cannot be 0"),
        (lambda: F.softshrink(x, -1.0), RuntimeError, "lambda must be in range"),
        (lambda: F.rrelu(x, 2.0, 1.0), RuntimeError, "Lower bound should be less"),
        (lambda: F.prelu(x, weft.ones(3)), RuntimeError, "channel size = 4"),
        (lambda: F.prelu(x, weft.ones(1, 1)), RuntimeError, "scalar or 1D tensor"),
        (lambda: F.prelu(x, weft.ones(1).double()), RuntimeError, "promoting not supported"),
        (lambda: F.hardshrink(x.long()), NotImplementedError, "not implemented for"),
        (lambda: F.multi_margin_loss(x, weft.tensor([0])), RuntimeError, "target size"),
        (lambda: F.multi_margin_loss(x, weft.tensor([0]), p=3), ValueError, "p == 1 and p == 2"),
        (lambda: F.multilabel_margin_loss(x, weft.ones(3)), RuntimeError, "target size"),
        (lambda: F.triplet_margin_loss(x, x, x, margin=0), ValueError, "margin must be greater"),
        (lambda: F.triplet_margin_loss(x, x, x[0]), RuntimeError, "same number of dimensions"),
        (lambda: F.margin_ranking_loss(x, x, x[0]), RuntimeError, "should have same dimension"),
        (lambda: F.cosine_embedding_loss(x, x, x), RuntimeError, "multi-target not supported"),
        (lambda: F.soft_margin_loss(x, x, reduction="all"), ValueError, "is not a valid value"),
        (lambda: F.poisson_nll_loss(x, x, reduction="all"), ValueError, "is not a valid value"),
    ]
    for call, error, words in cases:
        with pytest.raises(error, match=words):
            call()


def test_older_flags_of_losses() -> None:
    x, y = weft.zeros(2, 3), weft.ones(2, 3)
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert F.soft_margin_loss(x, y, size_average=False).item() == pytest.approx(6 * math.log(2))
    with pytest.warns(UserWarning, match="reduction='none'"):
        assert nn.MSELoss(reduce=False).reduction == "none"

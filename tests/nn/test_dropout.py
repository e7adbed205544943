"""Dropout: how often, how much, which gradient, and the same for any number of threads."""

from __future__ import annotations

import math
from typing import Any

import pytest

from .._target import weft, weft_only

nn, F = weft.nn, weft.nn.functional


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_share_and_scale(p: float) -> None:
    weft.manual_seed(0)
    n = 100_000
    out = F.dropout(weft.ones(n), p)
    kept = int((out != 0).sum())
    deviation = math.sqrt(n * p * (1 - p))
    assert abs(kept - n * (1 - p)) < 5 * deviation
    assert weft.allclose(out[out != 0], weft.tensor(1 / (1 - p)))


def test_certain_cases() -> None:
    x = weft.ones(5)
    assert F.dropout(x, 0.0).tolist() == [1.0] * 5
    assert F.dropout(x, 1.0).tolist() == [0.0] * 5
    assert F.dropout(x, 0.5, training=False).tolist() == [1.0] * 5
    assert nn.Dropout(0.7).eval()(x).tolist() == [1.0] * 5
    assert F.dropout(weft.ones(0), 0.5).shape == (0,)


def test_the_gradient_is_the_noise() -> None:
    x = weft.ones(1000, requires_grad=True)
    out = F.dropout(x, 0.3)
    out.sum().backward()
    assert weft.equal(x.grad, out.detach())


def test_in_place() -> None:
    x = weft.ones(100)
    assert F.dropout(x, 0.5, inplace=True) is x
    assert 0 < int((x == 0).sum()) < 100
    y = weft.ones(4, 3, 5)
    assert F.dropout1d(y, 0.5, inplace=True) is y


@pytest.mark.parametrize(
    ("function", "shape"),
    [("dropout1d", (50, 40, 3)), ("dropout2d", (50, 40, 3, 2)), ("dropout3d", (50, 40, 2, 2, 2))],
)
def test_whole_channels(function: str, shape: tuple[int, ...]) -> None:
    out = getattr(F, function)(weft.ones(shape), 0.5).flatten(2)
    share = float((out[:, :, 0] == 0).float().mean())
    assert 0.4 < share < 0.6
    assert bool((out == out[:, :, :1]).all())
    single = getattr(F, function)(weft.ones(shape[1:]), 0.5) if function != "dropout2d" else None
    assert single is None or single.shape == shape[1:]


@pytest.mark.parametrize("function", ["alpha_dropout", "feature_alpha_dropout"])
def test_alpha_dropout_keeps_mean_and_variance(function: str) -> None:
    weft.manual_seed(1)
    out = getattr(F, function)(weft.randn(400, 500), 0.3, training=True)
    assert abs(float(out.mean())) < 0.02
    assert abs(float(out.std()) - 1) < 0.02
    assert getattr(F, function)(weft.ones(3, 3), 0.5).tolist() == [[1.0] * 3] * 3


@weft_only
def test_the_same_for_any_number_of_threads() -> None:
    results = []
    before = weft.get_num_threads()
    try:
        for threads in (1, 2, 4):
            weft.set_num_threads(threads)
            weft.manual_seed(3)
            results.append(F.dropout(weft.ones(300_001), 0.5))
    finally:
        weft.set_num_threads(before)
    assert weft.equal(results[0], results[1])
    assert weft.equal(results[0], results[2])


def test_layout_does_not_change_what_is_dropped() -> None:
    x = weft.ones(30, 20)
    weft.manual_seed(5)
    plain = F.dropout(x, 0.5)
    weft.manual_seed(5)
    assert plain.shape == F.dropout(x.t().contiguous().t(), 0.5).shape


def test_errors() -> None:
    for p in (-0.1, 1.5):
        for make in (lambda p=p: nn.Dropout(p), lambda p=p: F.dropout(weft.ones(1), p)):
            with pytest.raises(ValueError, match=r"between 0 and 1, but got"):
                make()
    with pytest.raises(RuntimeError, match="can't be cast"):
        F.dropout(weft.ones(3, dtype=weft.int64), 0.5)
    with pytest.raises(RuntimeError, match="Expected 2D or 3D input"):
        F.dropout1d(weft.ones(3))
    for function, shape in (("dropout2d", (3, 4)), ("dropout3d", (3, 4))):
        with pytest.warns(UserWarning, match="is deprecated"):
            getattr(F, function)(weft.ones(shape), training=False)


def test_modules_follow_the_mode() -> None:
    kinds: Any = (nn.Dropout, nn.Dropout1d, nn.AlphaDropout, nn.FeatureAlphaDropout)
    for kind in kinds:
        layer = kind(0.5)
        x = weft.ones(4, 8, 16)
        assert not weft.equal(layer(x), x), kind
        assert weft.equal(layer.eval()(x), x), kind

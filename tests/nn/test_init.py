"""First values of parameters, against what the formulas promise."""

from __future__ import annotations

import math
from typing import Any

import pytest

from .._target import weft

init = weft.nn.init


@pytest.fixture(autouse=True)
def seeded() -> None:
    weft.manual_seed(0)


def check_spread(tensor: Any, low: float, high: float) -> None:
    """Evenly spread between two bounds."""
    assert low <= float(tensor.min()) and float(tensor.max()) <= high
    width = high - low
    assert float(tensor.min()) < low + 0.01 * width
    assert float(tensor.max()) > high - 0.01 * width
    assert abs(float(tensor.mean()) - (low + high) / 2) < 0.02 * width
    assert abs(float(tensor.std()) - width / math.sqrt(12)) < 0.02 * width


def test_uniform_and_normal() -> None:
    check_spread(init.uniform_(weft.empty(100, 200), -2.0, 3.0), -2.0, 3.0)
    normal = init.normal_(weft.empty(100, 200), 1.0, 2.0)
    assert abs(float(normal.mean()) - 1) < 0.1
    assert abs(float(normal.std()) - 2) < 0.1


def test_truncated_normal() -> None:
    cut = init.trunc_normal_(weft.empty(200, 200), 0.0, 1.0, -1.0, 2.0)
    assert float(cut.min()) >= -1 and float(cut.max()) <= 2

    def density(x: float) -> float:
        return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    def below(x: float) -> float:
        return 0.5 * (1 + math.erf(x / math.sqrt(2)))

    mean = (density(-1) - density(2)) / (below(2) - below(-1))
    assert abs(float(cut.mean()) - mean) < 0.02
    with pytest.warns(UserWarning, match="more than 2 std"):
        init.trunc_normal_(weft.empty(3), 10.0, 1.0, -1.0, 1.0)


def test_fans() -> None:
    assert init._calculate_fan_in_and_fan_out(weft.empty(8, 4)) == (4, 8)
    assert init._calculate_fan_in_and_fan_out(weft.empty(8, 4, 3, 5)) == (60, 120)
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.xavier_uniform_(weft.empty(3))
    with pytest.raises(ValueError, match="Mode fan_all not supported"):
        init.kaiming_uniform_(weft.empty(3, 3), mode="fan_all")


def test_xavier_and_kaiming() -> None:
    weight = weft.empty(100, 300)
    bound = 2 * math.sqrt(6 / 400)
    check_spread(init.xavier_uniform_(weight, gain=2.0), -bound, bound)
    assert abs(float(init.xavier_normal_(weight).std()) - math.sqrt(2 / 400)) < 1e-3
    bound = math.sqrt(2 / (1 + 0.5**2)) * math.sqrt(3 / 300)
    check_spread(init.kaiming_uniform_(weight, a=0.5), -bound, bound)
    out = init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu")
    assert abs(float(out.std()) - math.sqrt(2 / 100)) < 2e-3
    with pytest.warns(UserWarning, match="zero-element"):
        init.kaiming_uniform_(weft.empty(0, 3))


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3), (4, 3, 2), (1, 7), (40, 50)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    made = init.orthogonal_(weft.empty(shape, dtype=weft.float64), gain=2.0)
    flat = made.reshape(shape[0], -1)
    product = flat @ flat.t() if flat.shape[0] <= flat.shape[1] else flat.t() @ flat
    assert weft.allclose(product, 4 * weft.eye(len(product), dtype=weft.float64), atol=1e-12)


def test_patterns() -> None:
    assert init.eye_(weft.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert init.constant_(weft.empty(2), 3.0).tolist() == [3, 3]
    assert init.ones_(weft.empty(2)).tolist() == [1, 1]
    assert init.zeros_(weft.empty(2)).tolist() == [0, 0]
    dirac = init.dirac_(weft.empty(4, 2, 3), groups=2)
    expected = weft.zeros(4, 2, 3)
    for row, channel in ((0, 0), (1, 1), (2, 0), (3, 1)):
        expected[row, channel, 1] = 1
    assert weft.equal(dirac, expected)
    sparse = init.sparse_(weft.empty(10, 6), 0.35)
    assert (sparse == 0).sum(0).tolist() == [4] * 6


def test_errors_and_gains() -> None:
    for function, shape in (("eye_", (3,)), ("sparse_", (3,)), ("dirac_", (3, 3))):
        extra = (0.5,) if function == "sparse_" else ()
        with pytest.raises(ValueError, match="Only tensors with"):
            getattr(init, function)(weft.empty(shape), *extra)
    with pytest.raises(ValueError, match="divisible by groups"):
        init.dirac_(weft.empty(3, 3, 3), groups=2)
    with pytest.raises(ValueError, match="Only tensors with 2 or more"):
        init.orthogonal_(weft.empty(3))
    assert init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("linear") == 1
    assert init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("selu") == 0.75
    assert init.calculate_gain("leaky_relu", 2) == math.sqrt(2 / 5)
    for bad in (True, "x"):
        with pytest.raises(ValueError, match="not a valid number"):
            init.calculate_gain("leaky_relu", bad)
    with pytest.raises(ValueError, match="Unsupported nonlinearity"):
        init.calculate_gain("cubic")


def test_nothing_is_recorded_and_the_generator_is_used() -> None:
    weight = weft.nn.Parameter(weft.empty(3, 3))
    init.xavier_uniform_(weight)
    assert weight.is_leaf and weight.requires_grad and weight.grad_fn is None
    first = init.normal_(weft.empty(5), generator=weft.Generator().manual_seed(7))
    again = init.normal_(weft.empty(5), generator=weft.Generator().manual_seed(7))
    assert weft.equal(first, again)


def test_older_names() -> None:
    with pytest.warns(FutureWarning, match="deprecated in favor of"):
        assert init.constant(weft.empty(1), 2.0).tolist() == [2.0]

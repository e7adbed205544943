"""Scans and softmax: values, the fixed orders to the bit, layouts, threads, instruction sets."""

from __future__ import annotations

import numpy as np
import pytest

from .kernels import Kernels, all_kernels, best, bits, layouts

SEGMENT = 128
SHAPES = [(5, 700), (700, 5), (300, 40), (3, 9000), (9000,), (200000,), (6, 1, 7), (20, 30, 40)]
FLOATS = [np.float16, np.float32, np.float64]


@pytest.fixture(params=all_kernels(), ids=lambda k: k.isa)
def kernels(request: pytest.FixtureRequest) -> Kernels:
    made: Kernels = request.param
    made.threads(2)
    return made


def normal(shape: tuple[int, ...], dtype: type = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def fixed_cumsum(x: np.ndarray) -> np.ndarray:
    """Note [The fixed scan], word for word, on a flat sequence."""
    y = np.empty_like(x)
    before = x.dtype.type(0)
    for start in range(0, len(x), SEGMENT):
        local = np.cumsum(x[start : start + SEGMENT] + x.dtype.type(0), dtype=x.dtype)
        y[start : start + SEGMENT] = before + local
        before = before + local[-1]
    return y


def everywhere(x: np.ndarray, run) -> set[bytes]:  # type: ignore[no-untyped-def]
    found = set()
    for kernels in all_kernels():
        for threads in (1, 2, 3, 8):
            kernels.threads(threads)
            for view in layouts(x) if threads == 2 else [x]:
                got = run(kernels, view)
                found.add(b"".join(map(bits, got)) if isinstance(got, tuple) else bits(got))
    return found


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cumsum_is_the_fixed_scan(shape: tuple[int, ...]) -> None:
    x = normal(shape)
    for d in range(x.ndim):
        expected = np.apply_along_axis(fixed_cumsum, d, x)
        assert everywhere(x, lambda k, view: k.scan(0, view, d)) == {bits(expected)}  # noqa: B023
        np.testing.assert_allclose(
            expected, np.cumsum(x, d, dtype=np.float64), rtol=1e-4, atol=1e-3
        )


@pytest.mark.parametrize("dtype", FLOATS)
def test_other_scans(kernels: Kernels, dtype: type) -> None:
    tolerance = 1e-2 if dtype == np.float16 else 1e-5
    for shape in SHAPES[:5]:
        x = normal(shape, dtype)
        for d in range(x.ndim):
            ones = np.where(x > 0, 1.001, 1 / 1.001).astype(dtype)
            product = kernels.scan(1, ones, d, np.float64)
            np.testing.assert_allclose(product, np.cumprod(ones.astype("f8"), d), rtol=1e-11)
            for view in layouts(x):
                got = kernels.scan(2, view, d)
                wide = np.logaddexp.accumulate(x.astype("f8"), d)
                np.testing.assert_allclose(got, wide, rtol=tolerance, atol=tolerance)


def test_scans_of_integers_and_edges(kernels: Kernels) -> None:
    small = np.full((3, 1000), 100, np.int8)
    np.testing.assert_array_equal(
        kernels.scan(0, small, 1, np.int64), np.cumsum(small, 1, dtype="i8")
    )
    np.testing.assert_array_equal(
        kernels.scan(0, small, 0, np.int64), np.cumsum(small, 0, dtype="i8")
    )
    threes = np.full(200, 3, np.int64)
    np.testing.assert_array_equal(kernels.scan(1, threes, 0), np.cumprod(threes))
    assert kernels.scan(0, np.array([True, True, False]), 0, np.int64).tolist() == [1, 2, 2]
    assert kernels.scan(0, np.zeros((0, 3), np.float32), 0).shape == (0, 3)
    assert kernels.scan(0, np.zeros((3, 0), np.float32), 0).shape == (3, 0)
    nan, inf = np.nan, np.inf
    got = kernels.scan(2, np.array([-inf, -inf, 1, inf, inf, nan], np.float32), 0)
    np.testing.assert_array_equal(got, np.array([-inf, -inf, 1, inf, inf, nan], np.float32))
    assert np.isnan(kernels.scan(0, np.array([1, nan, 1], np.float32), 0)).tolist() == [0, 1, 1]
    z = (normal((50,)) + 1j * normal((50,), seed=1)).astype(np.complex64)
    np.testing.assert_allclose(kernels.scan(0, z, 0), np.cumsum(z), rtol=1e-5, atol=1e-5)


def test_running_sums_of_positive_numbers_never_decrease(kernels: Kernels) -> None:
    x = np.random.default_rng(0).random(100000).astype(np.float32) ** 8
    assert (np.diff(kernels.scan(0, x, 0)) >= 0).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.int64, np.bool_])
def test_running_extremes(kernels: Kernels, dtype: type) -> None:
    for shape in [(7, 30), (30, 7), (4, 5, 6)]:
        x = (normal(shape) * 3).astype(dtype)
        for d in range(x.ndim):
            for smallest in (False, True):
                expected = (np.minimum if smallest else np.maximum).accumulate(x, d)
                for view in layouts(x):
                    values, indices = kernels.extreme(smallest, view, d)
                    np.testing.assert_array_equal(values, expected)
                    np.testing.assert_array_equal(np.take_along_axis(x, indices, d), expected)
    nan = np.nan
    values, indices = kernels.extreme(False, np.array([1, 2, 2, nan, 1, nan, 5], np.float32), 0)
    assert indices.tolist() == [0, 1, 2, 3, 3, 5, 5]
    np.testing.assert_array_equal(values, np.array([1, 2, 2, nan, nan, nan, nan], np.float32))


# ---- softmax ------------------------------------------------------------------------------------


def exact_softmax(x: np.ndarray, d: int) -> np.ndarray:
    wide = x.astype(np.float64)
    exponentials = np.exp(wide - wide.max(d, keepdims=True))
    return exponentials / exponentials.sum(d, keepdims=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "shape", [(5, 700), (700, 10), (3, 9000), (6, 1, 7), (20, 30, 40)], ids=str
)
def test_softmax(kernels: Kernels, shape: tuple[int, ...], dtype: type) -> None:
    tolerance = {np.float16: 2e-3, np.float32: 2e-6, np.float64: 1e-14}[dtype]
    x, grad = normal(shape, dtype) * dtype(3), normal(shape, dtype, 1)
    for d in range(x.ndim):
        p = exact_softmax(x, d)
        for view in layouts(x):
            y = kernels.softmax(False, view, d)
            np.testing.assert_allclose(y, p, rtol=tolerance, atol=tolerance / 10)
            log_y = kernels.softmax(True, view, d)
            np.testing.assert_allclose(log_y, np.log(p), rtol=tolerance, atol=tolerance * 10)
            total = kernels.log_sum_exp(view, d)
            wide = np.logaddexp.reduce(x.astype(np.float64), d)
            np.testing.assert_allclose(total, wide, rtol=tolerance, atol=tolerance)
        wide_y, wide_g, wide_log = y.astype("f8"), grad.astype("f8"), log_y.astype("f8")
        expected = wide_y * (wide_g - (wide_g * wide_y).sum(d, keepdims=True))
        expected_log = wide_g - np.exp(wide_log) * wide_g.sum(d, keepdims=True)
        for g in layouts(grad):
            got = kernels.softmax_backward(False, g, y, d)
            np.testing.assert_allclose(got, expected, rtol=tolerance * 4, atol=tolerance * 4)
            got = kernels.softmax_backward(True, g, log_y, d)
            np.testing.assert_allclose(got, expected_log, rtol=tolerance * 20, atol=tolerance * 20)


@pytest.mark.parametrize("shape", [(300, 700), (4000, 10), (3, 30000), (12, 9, 50)], ids=str)
def test_softmax_has_the_same_bits_everywhere(shape: tuple[int, ...]) -> None:
    x, grad = normal(shape), normal(shape, seed=1)
    for d in range(x.ndim):
        for log in (False, True):
            run = lambda k, view: k.softmax(log, view, d)  # noqa: B023, E731
            assert len(everywhere(x, run)) == 1
            y = best().softmax(log, x, d)
            run = lambda k, view: k.softmax_backward(log, view, y, d)  # noqa: B023, E731
            assert len(everywhere(grad, run)) == 1
        assert len(everywhere(x, lambda k, view: k.log_sum_exp(view, d))) == 1  # noqa: B023


@pytest.mark.parametrize("scale", [1, 5, 30])
@pytest.mark.parametrize("n", [10, 300, 9000])
def test_softmax_is_within_two_units_in_the_last_place(
    kernels: Kernels, n: int, scale: float
) -> None:
    """However far apart the elements lie, and however many there are."""
    x = normal((20, n)) * np.float32(scale)
    p = exact_softmax(x, 1)
    for view, d, exact in ((x, 1, p), (np.ascontiguousarray(x.T), 0, p.T)):
        unit = np.spacing(np.maximum(exact, 1e-37).astype(np.float32)).astype(np.float64)
        assert (np.abs(kernels.softmax(False, view, d) - exact) / unit).max() < 2


def test_softmax_edges(kernels: Kernels) -> None:
    inf = np.inf
    x = np.array([[-inf, -inf], [inf, 1], [-inf, 1], [1e30, -1e30]], np.float32)
    y = kernels.softmax(False, x, 1)
    assert np.isnan(y[0]).all() and np.isnan(y[1]).all()
    np.testing.assert_array_equal(y[2:], [[0, 1], [1, 0]])
    np.testing.assert_array_equal(
        kernels.log_sum_exp(x, 1), np.array([-inf, inf, 1, 1e30], np.float32)
    )
    assert kernels.softmax(False, np.zeros((3, 0), np.float32), 1).shape == (3, 0)
    assert kernels.softmax(False, np.zeros((1,), np.float32), 0).tolist() == [1]

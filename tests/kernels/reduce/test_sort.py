"""Sorting and selecting: against numpy's stable sort, with NaN greatest and -0 equal to 0."""

from __future__ import annotations

import numpy as np
import pytest

from .kernels import Kernels, best, bits, layouts

REAL = [np.dtype(c) for c in ("?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8")]
SHAPES = [(5, 700), (700, 5), (3, 9000), (1, 4), (4, 5, 6), (20000,)]


@pytest.fixture
def kernels() -> Kernels:
    made = best()
    made.threads(2)
    return made


def sample(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Values with many ties, negative ones included."""
    x = np.random.default_rng(1).standard_normal(shape) * 30
    if dtype.kind == "f":
        x = x.round(1)
        x.flat[::11] = np.nan
        x.flat[1::13] = -0.0
        x.flat[2::13] = 0.0
        x.flat[5::101] = np.inf
        x.flat[6::101] = -np.inf
        return x.astype(dtype)
    return np.abs(x).astype(dtype) if dtype.kind in "bu" else x.astype(dtype)


def stable_order(x: np.ndarray, d: int, descending: bool) -> np.ndarray:
    if not descending:
        return np.argsort(x, axis=d, kind="stable")
    # Reverse, sort, reverse: equal elements keep their order.
    reverse = np.argsort(np.flip(x, d), axis=d, kind="stable")
    return x.shape[d] - 1 - np.flip(reverse, d)


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sort(kernels: Kernels, shape: tuple[int, ...], dtype: np.dtype) -> None:
    x = sample(shape, dtype)
    for d in range(x.ndim):
        for descending in (False, True):
            order = stable_order(x, d, descending)
            expected = bits(np.take_along_axis(x, order, d))
            for view in layouts(x):
                values, indices = kernels.sort(view, d, descending)
                np.testing.assert_array_equal(indices, order)
                assert bits(values) == expected


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_topk_and_kth(kernels: Kernels, dtype: np.dtype) -> None:
    for shape in SHAPES:
        x = sample(shape, dtype)
        for d in range(x.ndim):
            for k in {1, min(3, x.shape[d]), x.shape[d]}:
                for largest in (False, True):
                    order = np.take(stable_order(x, d, largest), range(k), d)
                    values, indices = kernels.select("topk", x, d, k, largest)
                    np.testing.assert_array_equal(indices, order)
                    assert bits(values) == bits(np.take_along_axis(x, order, d))
                order = np.take(stable_order(x, d, False), [k - 1], d)
                values, indices = kernels.select("kth", x, d, k)
                np.testing.assert_array_equal(indices, order)


@pytest.mark.parametrize("dtype", ["f4", "i8"])
@pytest.mark.parametrize("k", [1, 50, 3000, 40_000])
def test_topk_of_long_lines(kernels: Kernels, dtype: str, k: int) -> None:
    """Too long for the cache: a few are collected, many are selected as from a short line."""
    x = sample((2, 70_000), np.dtype(dtype))
    for largest in (False, True):
        order = stable_order(x, 1, largest)[:, :k]
        values, indices = kernels.select("topk", x, 1, k, largest)
        np.testing.assert_array_equal(indices, order)
        assert bits(values) == bits(np.take_along_axis(x, order, 1))


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_selecting_among_equals(kernels: Kernels, dtype: np.dtype) -> None:
    """Of equal elements the earlier ones are taken, in order."""
    x = np.zeros((3, 500), dtype)
    x[1, ::2] = 1
    for k in (1, 7, 249, 250, 251, 500):
        for largest in (False, True):
            order = stable_order(x, 1, largest)[:, :k]
            np.testing.assert_array_equal(kernels.select("topk", x, 1, k, largest)[1], order)
        kth = stable_order(x, 1, False)[:, k - 1 : k]
        np.testing.assert_array_equal(kernels.select("kth", x, 1, k)[1], kth)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_median_and_mode(kernels: Kernels, dtype: np.dtype) -> None:
    for shape in SHAPES:
        x = sample(shape, dtype)
        if dtype.kind == "f":
            x.flat[: x.size // 2] = np.nan_to_num(x.flat[: x.size // 2])
        for d in range(x.ndim):
            lines = np.moveaxis(x, d, -1).reshape(-1, x.shape[d])
            plain, ignoring, most = [], [], []
            for line in lines:
                nan = np.isnan(line) if dtype.kind == "f" else np.zeros(line.shape, bool)
                numbers = np.sort(line[~nan])
                lower = numbers[(len(numbers) - 1) // 2] if len(numbers) else line[0]
                plain.append(np.nan if nan.any() else lower)
                ignoring.append(lower)
                if not nan.any():
                    found, counts = np.unique(line, return_counts=True)
                    most.append(found[counts.argmax()])
            got = kernels.select("median", x, d)[0]
            np.testing.assert_array_equal(np.moveaxis(got, d, -1).ravel(), plain)
            got, indices = kernels.select("median", x, d, flag=True)
            np.testing.assert_array_equal(np.moveaxis(got, d, -1).ravel(), ignoring)
            np.testing.assert_array_equal(np.take_along_axis(x, indices, d), got)
            if len(most) == len(lines):
                got = kernels.select("mode", x, d)[0]
                np.testing.assert_array_equal(np.moveaxis(got, d, -1).ravel(), most)


def test_median_of_nan(kernels: Kernels) -> None:
    nan = np.nan
    x = np.array([[1, nan, 2, nan], [nan, nan, nan, nan], [3, 1, 2, 4]], np.float32)
    values, indices = kernels.select("median", x, 1)
    np.testing.assert_array_equal(values.ravel(), np.array([nan, nan, 2], np.float32))
    assert indices.ravel().tolist() == [1, 0, 2]
    values, indices = kernels.select("median", x, 1, flag=True)
    np.testing.assert_array_equal(values.ravel(), np.array([1, nan, 2], np.float32))
    assert indices.ravel().tolist() == [0, 0, 2]


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("n", [0, 1, 5, 300, 20000])
def test_unique(kernels: Kernels, dtype: np.dtype, n: int) -> None:
    x = sample((n,), dtype)
    values, inverse, counts = kernels.unique(x)
    options = {"equal_nan": False} if dtype.kind == "f" else {}
    expected = np.unique(x, return_inverse=True, return_counts=True, **options)
    np.testing.assert_array_equal(values, expected[0])
    np.testing.assert_array_equal(counts, expected[2])
    np.testing.assert_array_equal(values[inverse], x)


def test_unique_consecutive(kernels: Kernels) -> None:
    x = np.array([1, 1, 2, 2, 2, 1, np.nan, np.nan], np.float32)
    values, inverse, counts = kernels.unique(x, consecutive=True)
    np.testing.assert_array_equal(values, np.array([1, 2, 1, np.nan, np.nan], np.float32))
    assert inverse.tolist() == [0, 0, 1, 1, 1, 2, 3, 4] and counts.tolist() == [2, 3, 1, 1, 1]


def test_large_keys_and_threads(kernels: Kernels) -> None:
    x = np.random.default_rng(2).integers(-(2**62), 2**62, (4, 5000))
    for threads in (1, 3):
        kernels.threads(threads)
        values, indices = kernels.sort(x, 1)
        np.testing.assert_array_equal(values, np.sort(x, 1))
        np.testing.assert_array_equal(indices, np.argsort(x, 1, kind="stable"))

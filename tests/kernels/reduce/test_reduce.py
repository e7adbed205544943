"""Reductions: the fixed tree to the bit, for every layout, thread count and instruction set."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from .kernels import BFLOAT16, REDUCTIONS, Kernels, all_kernels, best, bits, layouts

REAL = [np.dtype(c) for c in ("?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8")]
THREADS = (1, 2, 3, 4, 8)
LANES, CHUNK = 64, 4096


@pytest.fixture(params=all_kernels(), ids=lambda k: k.isa)
def kernels(request: pytest.FixtureRequest) -> Kernels:
    made: Kernels = request.param
    made.threads(2)
    return made


def sample(shape: tuple[int, ...], dtype: np.dtype, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.kind in "biu":
        return rng.integers(0, 100, shape).astype(dtype)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype.kind == "c" else x).astype(dtype)


def fold(trees: list[np.ndarray]) -> np.ndarray:
    """Rule 4 of the fixed tree."""
    if len(trees) == 1:
        return trees[0]
    half = 1
    while half * 2 < len(trees):
        half *= 2
    return fold(trees[:half]) + fold(trees[half:])


def tree_sum(x: np.ndarray) -> np.ndarray:
    """Note [The fixed tree], word for word, on a flat sequence."""
    chunks = []
    for start in range(0, max(1, len(x)), CHUNK):
        lanes = np.zeros(LANES, x.dtype)
        for i in range(start, min(len(x), start + CHUNK), LANES):
            row = x[i : min(i + LANES, len(x))]
            lanes[: len(row)] += row
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = lanes[:half] + lanes[half:]
        chunks.append(lanes[0])
    return fold(chunks)


@pytest.mark.parametrize(
    "n", [0, 1, 2, 3, 5, 8, 9, 31, 32, 33, 63, 64, 65, 100, 4095, 4096, 4097, 50001, 70000, 300000]
)
def test_sum_is_the_fixed_tree(kernels: Kernels, n: int) -> None:
    for dtype in (np.float32, np.float64):
        x = sample((n,), np.dtype(dtype))
        assert bits(kernels.reduce("sum", x)) == bits(tree_sum(x))


@pytest.mark.parametrize(
    "shape", [(5, 700), (700, 5), (9000, 3), (3, 9000), (40, 7, 33), (65, 130)]
)
def test_sum_over_some_dims_is_the_fixed_tree(kernels: Kernels, shape: tuple[int, ...]) -> None:
    x = sample(shape, np.dtype(np.float32))
    for d in range(x.ndim):
        lines = np.moveaxis(x, d, -1).reshape(-1, x.shape[d])
        expected = np.array([tree_sum(line) for line in lines])
        for view in layouts(x):
            assert bits(kernels.reduce("sum", view, [d])) == bits(expected)


def reference(kind: str, x: np.ndarray, axis: tuple[int, ...]) -> np.ndarray:
    wide = x.astype("f8" if x.dtype.kind == "f" else "c16" if x.dtype.kind == "c" else "i8")
    match kind:
        case "sum" | "mean" | "prod" | "amax" | "amin" | "any" | "all" | "nansum":
            result: np.ndarray = getattr(np, kind)(wide, axis=axis)
            return result
        case "count_nonzero":
            return np.asarray(np.count_nonzero(x, axis=axis))
        case "sum_of_squares":
            return np.sum(wide * wide, axis=axis)
        case "sum_of_abs":
            return np.sum(np.abs(wide), axis=axis)
        case "norm":
            return np.sqrt(np.sum(wide * wide, axis=axis))
    raise AssertionError(kind)


def supported(kind: str, dtype: np.dtype) -> bool:
    if dtype.kind == "c":
        return kind in ("sum", "mean", "prod", "any", "all", "count_nonzero")
    if kind in ("mean", "nansum", "sum_of_squares", "sum_of_abs", "norm"):
        return dtype.kind == "f"
    return True


@pytest.mark.parametrize("kind", REDUCTIONS[:12])
@pytest.mark.parametrize("dtype", [*REAL, np.dtype("c8"), np.dtype("c16")], ids=str)
def test_values(kernels: Kernels, kind: str, dtype: np.dtype) -> None:
    if not supported(kind, dtype):
        pytest.skip("not a question for this type")
    tolerance = {"f2": 2e-2, "f4": 2e-5, "c8": 2e-5}.get(dtype.str[1:], 1e-12)
    for shape, axes in [
        ((7, 33, 5), [(0,), (1,), (2,), (0, 2), (0, 1, 2)]),
        ((1, 4), [(0,), (1,)]),
    ]:
        x = sample(shape, dtype)
        if kind == "prod" and dtype.kind in "fc":
            x = (x / np.abs(x)).astype(dtype)  # of modulus 1: no overflow
        for axis in axes:
            expected = reference(kind, x, axis)
            for view in layouts(x):
                got = kernels.reduce(kind, view, axis)
                np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * 40)


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("largest", [True, False])
def test_places_of_extremes(kernels: Kernels, dtype: np.dtype, largest: bool) -> None:
    names = ("argmax", "max_with_index") if largest else ("argmin", "min_with_index")
    for shape in [(9, 70), (70, 9), (3, 5000), (5000, 3), (9000,)]:
        x = sample(shape, dtype)
        x.flat[::7] = x.flat[3]
        for d in range(x.ndim):
            expected = (np.argmax if largest else np.argmin)(x, axis=d)
            values = np.take_along_axis(x, np.expand_dims(expected, d), d).squeeze(d)
            for view in layouts(x):
                np.testing.assert_array_equal(kernels.reduce(names[0], view, [d]), expected)
                got, index = kernels.reduce(names[1], view, [d])
                np.testing.assert_array_equal(index, expected)
                assert bits(got) == bits(values)
        flat = (np.argmax if largest else np.argmin)(x)
        assert all(kernels.reduce(names[0], view) == flat for view in layouts(x))


def test_nan_infinity_and_zero(kernels: Kernels) -> None:
    nan, inf = np.nan, np.inf
    for dtype in (np.float16, np.float32, np.float64):
        for length in (4, 40, 5000):
            for place in (0, 3, length - 1):
                x = np.full((2, length), 1, dtype)
                x[0, place] = nan
                for view in (x, np.asfortranarray(x)):
                    for kind in ("sum", "mean", "prod", "amax", "amin"):
                        got = kernels.reduce(kind, view, [1])
                        assert np.isnan(got[0]) and not np.isnan(got[1])
                    for kind in ("argmax", "argmin"):
                        assert kernels.reduce(kind, view, [1])[0] == place
                    assert kernels.reduce("nansum", view, [1])[0] == length - 1
                    assert kernels.reduce("any", view, [1]).all()
        x = np.array([-inf, -0.0, 0.0, inf], dtype)
        assert kernels.reduce("amax", x) == inf and kernels.reduce("amin", x) == -inf
        assert np.isnan(kernels.reduce("sum", x))
        assert kernels.reduce("amax", np.full(100, -inf, dtype)) == -inf
        assert kernels.reduce("argmax", np.full(100, -inf, dtype)) == 0
        # As PyTorch: the sum of negative zeros is a positive one; extremes keep the first.
        zeros = np.array([-0.0, -0.0], dtype)
        assert not np.signbit(kernels.reduce("sum", zeros))
        value, index = kernels.reduce("max_with_index", np.array([-0.0, 0.0], dtype))
        assert index == 0 and np.signbit(value)


def test_empty(kernels: Kernels) -> None:
    x = np.zeros((3, 0), np.float32)
    assert kernels.reduce("sum", x, [1]).tolist() == [0, 0, 0]
    assert kernels.reduce("prod", x, [1]).tolist() == [1, 1, 1]
    assert kernels.reduce("sum", x, [0]).shape == (0,)
    assert kernels.reduce("all", x) and not kernels.reduce("any", x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isnan(kernels.reduce("mean", x))
        mean, variance = kernels.moments(x, [1], 1, 1.0)
    assert np.isnan(mean).all() and np.isnan(variance).all()


def test_integers_wrap(kernels: Kernels) -> None:
    big = np.full(100, 2**62, np.int64)
    assert kernels.reduce("sum", big) == np.sum(big)
    assert kernels.reduce("prod", np.full(70, 3, np.int64)) == np.prod(np.full(70, 3))
    assert kernels.reduce("sum", np.full(100000, 127, np.int8)) == 12700000
    assert kernels.reduce("sum", np.full(100000, 2**31 - 1, np.int32)) == 100000 * (2**31 - 1)
    assert kernels.reduce("amin", np.array([-128, 127], np.int8)) == -128
    assert kernels.reduce("amax", np.full(50, -(2**63), np.int64)) == -(2**63)


def test_result_types(kernels: Kernels) -> None:
    x = np.full(4096 * 3, 1, np.float16)
    assert kernels.reduce("sum", x, out=np.float32) == 4096 * 3
    assert kernels.reduce("sum", x, out=np.float64) == 4096 * 3
    assert kernels.reduce("mean", np.arange(10, dtype=np.int32), out=np.float32) == 4.5
    assert kernels.reduce("sum", np.array([True] * 300), out=np.int32) == 300
    bfloat = (np.arange(64, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
    total = kernels.reduce("sum", bfloat, code=BFLOAT16)
    assert (total.astype(np.uint32) << 16).view(np.float32) == 2016


@pytest.mark.parametrize(
    "shape,axes",
    [
        ((300, 200), [(1,), (0,)]),
        ((20000, 6), [(0,), (1,)]),
        ((6, 20000), [(1,)]),
        ((8, 30, 25), [(0, 2), (1,)]),
    ],
)
def test_moments(kernels: Kernels, shape: tuple[int, ...], axes: list[tuple[int, ...]]) -> None:
    x = sample(shape, np.dtype(np.float32)) + 1000
    for axis in axes:
        for correction in (0.0, 1.0):
            for view in layouts(x):
                mean, variance = kernels.moments(view, axis, 1, correction)
                wide = x.astype(np.float64)
                np.testing.assert_allclose(mean, wide.mean(axis), rtol=1e-6)
                np.testing.assert_allclose(variance, wide.var(axis, ddof=correction), rtol=1e-5)
        assert bits(mean) == bits(kernels.reduce("mean", x, axis))
        deviation = kernels.moments(x, axis, 2, correction)[1]
        assert bits(deviation) == bits(np.sqrt(variance))


@pytest.mark.parametrize("kind", [k for k in REDUCTIONS if k not in ("any", "all")])
def test_same_bits_everywhere(kind: str) -> None:
    """For every instruction set, thread count and memory layout."""
    cases = [
        ((400, 900), (0,)),
        ((400, 900), (1,)),
        ((400, 900), (0, 1)),
        ((30, 50, 71), (0, 2)),
        ((200000, 2), (0,)),
        ((3, 70000), (1,)),
        ((9, 40, 30, 11), (1, 3)),
    ]
    for shape, axis in cases:
        x = sample(shape, np.dtype(np.float32))
        expected = None
        for kernels in all_kernels():
            for threads in THREADS:
                kernels.threads(threads)
                views = layouts(x) if threads == 2 else [x]
                for view in views:
                    got = kernels.reduce(kind, view, axis)
                    found = b"".join(map(bits, got)) if isinstance(got, tuple) else bits(got)
                    expected = expected or found
                    assert found == expected, (kernels.isa, threads, shape, axis, view.strides)


@pytest.mark.parametrize("dtype", ["f2", "f8", "i4", "c8"])
def test_same_bits_for_other_types(dtype: str) -> None:
    x = sample((150, 333), np.dtype(dtype))
    for axis in [(0,), (1,), (0, 1)]:
        for kind in ("sum", "prod"):
            found = {bits(k.reduce(kind, view, axis)) for k in all_kernels() for view in layouts(x)}
            assert len(found) == 1


@pytest.mark.parametrize("shape", [(4097, 513), (9000, 65), (300, 700), (5000, 300)], ids=str)
def test_wide_columns(kernels: Kernels, shape: tuple[int, int]) -> None:
    """Columns read a lane at a time, of several chunks and in blocks of which the last is narrower:
    the same tree as along rows."""
    x = sample(shape, np.dtype("f4"))
    rows = np.ascontiguousarray(x.T)
    for kind in ("sum", "prod", "amax", "norm"):
        by_columns = kernels.reduce(kind, x, [0])
        assert bits(by_columns) == bits(kernels.reduce(kind, rows, [1]))
    np.testing.assert_allclose(kernels.reduce("sum", x, [0]), x.sum(0, dtype="f8"), atol=1e-2)


def test_expanded_memory() -> None:
    x = np.broadcast_to(np.arange(7, dtype=np.float32), (500, 7))
    np.testing.assert_array_equal(best().reduce("sum", x, [0]), np.arange(7) * 500.0)
    y = np.broadcast_to(np.arange(7, dtype=np.float32)[:, None], (7, 500))
    np.testing.assert_array_equal(best().reduce("sum", y, [1]), np.arange(7) * 500.0)
    assert best().reduce("sum", x) == 21 * 500

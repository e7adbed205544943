"""Copies, indexing, scattering and selecting against numpy and PyTorch."""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from products import DTYPE_NAMES, DTYPES, Array, build, values

torch = pytest.importorskip("torch")


class Strided(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("ndim", ctypes.c_int),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    ]


def integers(numbers: tuple[int, ...] | list[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * max(1, len(numbers)))(*numbers)


def view(x: Array, dims: list[int] | None = None) -> Strided:
    """Of all dimensions, or of those in `dims`."""
    kept = range(x.ndim) if dims is None else dims
    sizes = integers([x.shape[d] for d in kept])
    return Strided(x.ctypes.data, len(kept), sizes, integers([x.strides[d] for d in kept]))


def strided(x: Array, dims: list[int] | None = None) -> ctypes._Pointer[Strided]:
    return ctypes.pointer(view(x, dims))


def dtype_number(dtype: str) -> int:
    return DTYPE_NAMES.index(dtype)


@pytest.fixture(scope="module")
def native() -> ctypes.CDLL:
    library = ctypes.CDLL(str(build()))
    for name in ("index_check", "get", "put", "select", "write", "gather_along", "scatter_along"):
        getattr(library, name).restype = ctypes.c_bool
    for name in ("mask_count", "nonzero_count"):
        getattr(library, name).restype = ctypes.c_int64
    return library


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest, native: ctypes.CDLL) -> int:
    native.use_threads(request.param)
    return request.param


def as_torch(dtype: str, x: Array) -> torch.Tensor:
    if dtype == "bfloat16":
        return torch.from_numpy(np.ascontiguousarray(x).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(x))


def bits(dtype: str, x: torch.Tensor) -> Array:
    return x.view(torch.int16).numpy().view(np.uint16) if dtype == "bfloat16" else x.numpy()


def assert_same(got: Array, want: Array) -> None:
    np.testing.assert_array_equal(got, want)


# ---- copies --------------------------------------------------------------------------------------

LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "whole": lambda x: x,
    "steps": lambda x: x[::2] if x.ndim == 1 else x[::2, ..., ::3],
    "backwards": lambda x: x[::-1] if x.ndim == 1 else x[::-1, ..., ::-1],
}


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize(
    "shape", [(7,), (100_003,), (33, 70), (300, 1001), (5, 6, 7), (40, 1, 90, 31), (3, 4, 5, 6, 7)]
)
def test_copies(native: ctypes.CDLL, threads: int, dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    permutations = list(itertools.permutations(range(len(shape))))[:: max(1, len(shape) * 2 - 3)]
    for permutation, layout in itertools.product(permutations, LAYOUTS.values()):
        src = layout(values(rng, dtype, shape).transpose(permutation))
        for dst in (np.zeros_like(src, order="C"), layout(np.zeros([3 * n for n in src.shape]))):
            dst = dst.astype(src.dtype)[tuple(slice(n) for n in src.shape)]
            native.strided_copy(src.itemsize, strided(dst), strided(src))
            assert_same(dst, src)


def test_copies_of_broadcast_and_empty_tensors(native: ctypes.CDLL) -> None:
    x = np.arange(5, dtype=np.float32)
    for src in (np.broadcast_to(x, (1000, 5)), np.broadcast_to(x[:, None], (5, 300)), x[:0], x[2]):
        dst = np.full(np.shape(src), -1, np.float32)
        native.strided_copy(4, strided(dst), strided(np.asarray(src)))
        assert_same(dst, src)


# ---- checks --------------------------------------------------------------------------------------


def test_the_first_index_out_of_range_is_named(native: ctypes.CDLL, threads: int) -> None:
    rng = np.random.default_rng(2)
    index = rng.integers(-9, 9, (300, 500)).T
    assert native.index_check(strided(index), ctypes.c_int64(9))
    index[400, 20] = 9
    index[123, 45] = -10
    assert not native.index_check(strided(index), ctypes.c_int64(9))
    facts = integers([0, 0, 0, 0])
    native.failure(facts)
    assert list(facts) == [0, -10, 123 * 300 + 45, 9]
    assert not native.index_check(strided(np.zeros(1, np.int64)), ctypes.c_int64(0))
    assert native.index_check(strided(np.zeros(0, np.int64)), ctypes.c_int64(0))


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 10, -11])
def test_extreme_indices_are_out_of_range(native: ctypes.CDLL, value: int) -> None:
    index = np.array([0, value])
    assert not native.index_check(strided(index), ctypes.c_int64(10))


# ---- several dimensions --------------------------------------------------------------------------

# shape, indexed dims, index shapes (they broadcast)
ADVANCED = [
    ((10,), [0], [(7,)]),
    ((50, 64), [0], [(3000,)]),
    ((20, 30), [1], [(4, 5)]),
    ((9, 8, 7), [0, 2], [(6, 1), (5,)]),
    ((9, 8, 7), [0, 1, 2], [(40,), (40,), (40,)]),
    ((6, 5, 4, 3), [1, 2], [(2, 1, 3), (4, 1)]),
    ((6, 500), [0], [()]),
    ((6, 5), [0], [(0,)]),
]


class Advanced:
    """One case: views of self, of the index tensors and of the result."""

    def __init__(self, rng: np.random.Generator, x: Array, dims: list[int], shapes: list) -> None:
        self.x = x
        self.dims = dims
        indices = [
            rng.integers(-x.shape[d], x.shape[d], s) for d, s in zip(dims, shapes, strict=True)
        ]
        self.indices = np.broadcast_arrays(*indices)
        self.rest = [d for d in range(x.ndim) if d not in dims]
        self.shape = self.indices[0].shape + tuple(x.shape[d] for d in self.rest)
        # numpy with the indexed dimensions first gives the result in the kernel's order
        self.moved = x.transpose([*dims, *self.rest])

    def arguments(self) -> list[object]:
        tensors = (Strided * len(self.indices))(*[view(i) for i in self.indices])
        sizes = integers([self.x.shape[d] for d in self.dims])
        return [len(self.dims), tensors, sizes, integers([self.x.strides[d] for d in self.dims])]


@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "int64", "complex128"])
@pytest.mark.parametrize("case", ADVANCED, ids=str)
def test_advanced_indexing(native: ctypes.CDLL, threads: int, dtype: str, case: tuple) -> None:
    rng = np.random.default_rng(3)
    shape, dims, index_shapes = case
    for x in (values(rng, dtype, shape), values(rng, dtype, shape[::-1]).T):
        advanced = Advanced(rng, x, dims, index_shapes)
        for out in (
            np.zeros(advanced.shape, x.dtype),
            np.zeros(advanced.shape[::-1], x.dtype).T,
        ):
            rest = strided(x, advanced.rest)
            assert native.get(x.itemsize, strided(out), rest, *advanced.arguments())
            assert_same(out, advanced.moved[tuple(advanced.indices)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", ADVANCED, ids=str)
def test_index_put(native: ctypes.CDLL, threads: int, dtype: str, case: tuple) -> None:
    rng = np.random.default_rng(4)
    shape, dims, index_shapes = case
    for accumulate in (False, True):
        x = values(rng, dtype, shape)
        advanced = Advanced(rng, x, dims, index_shapes)
        new = values(rng, dtype, advanced.shape)
        want = as_torch(dtype, advanced.moved).clone()
        torch_indices = [torch.from_numpy(i.copy()) for i in advanced.indices]
        torch.set_num_threads(1)  # where its order is the row-major one
        want.index_put_(torch_indices, as_torch(dtype, new), accumulate)
        rest = strided(x, advanced.rest)
        number = dtype_number(dtype)
        assert native.put(number, rest, *advanced.arguments(), strided(new), accumulate)
        assert_same(advanced.moved, bits(dtype, want))


def test_nothing_is_written_where_an_index_is_wrong(native: ctypes.CDLL) -> None:
    x = np.zeros((5, 3), np.float32)
    new = np.ones((4, 3), np.float32)
    index = np.array([0, 1, 2, 5])
    assert not native.write(8, strided(x), 0, strided(index), strided(new), False)
    assert not native.scatter_along(
        0, 8, strided(x), 0, strided(np.stack([index] * 3, 1)), strided(new), True
    )
    assert not x.any()
    assert not native.select(4, strided(new), strided(x), 0, strided(-index - 1))
    facts = integers([0, 0, 0, 0])
    native.failure(facts)
    assert list(facts) == [0, -6, 3, 5]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_one_dimension(native: ctypes.CDLL, threads: int, dtype: str, dim: int) -> None:
    rng = np.random.default_rng(5)
    x = values(rng, dtype, (30, 40, 50))
    index = rng.integers(-x.shape[dim], x.shape[dim], 70)
    shape = [70 if d == dim else n for d, n in enumerate(x.shape)]
    out = np.zeros(shape, x.dtype)
    assert native.select(x.itemsize, strided(out), strided(x), dim, strided(index))
    assert_same(out, np.take(x, index, dim))
    new = values(rng, dtype, tuple(shape))
    torch_new = as_torch(dtype, new)
    for accumulate in (True, False):
        want = as_torch(dtype, x).clone()
        for i, place in enumerate(index.tolist()):
            slice_ = want.select(dim, place)
            slice_.copy_(slice_ * accumulate + torch_new.select(dim, i))
        got = x.copy()
        number = dtype_number(dtype)
        assert native.write(number, strided(got), dim, strided(index), strided(new), accumulate)
        assert_same(got, bits(dtype, want))


# ---- along one dimension -------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(70_000,), (200, 300), (4, 50, 6), ()], ids=str)
def test_gather(native: ctypes.CDLL, threads: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(6)
    for dim in range(max(1, len(shape))):
        size = shape[dim] if shape else 1
        x = values(rng, "float32", shape[::-1]).T
        index_shape = tuple(n + 9 if d == dim else n for d, n in enumerate(shape))
        index = np.asarray(rng.integers(0, size, index_shape))
        out = np.zeros(index_shape, np.float32)
        assert native.gather_along(4, strided(out), strided(x), dim, strided(index))
        want = np.take_along_axis(x, index, dim) if shape else x
        assert_same(out, want)


def test_negative_indices_do_not_gather_or_scatter(native: ctypes.CDLL) -> None:
    x, index = np.zeros((2, 3), np.float32), np.array([[0, -1]])
    out = np.ones((1, 2), np.float32)
    assert not native.gather_along(4, strided(out), strided(x), 1, strided(index))
    assert not native.scatter_along(1, 8, strided(x), 1, strided(index), strided(out), True)
    assert out.all()
    assert not x.any()


KINDS = {"sum": 1, "prod": 2, "mean": 3, "amax": 4, "amin": 5}


def scatter_dtypes(kind: str) -> list[str]:
    excluded = {"complex64", "complex128"} | ({"bool"} if kind == "mean" else set())
    return [dtype for dtype in DTYPES if dtype not in excluded]


@pytest.mark.parametrize(
    ("kind", "dtype"), [(kind, dtype) for kind in KINDS for dtype in scatter_dtypes(kind)]
)
def test_scatter_reduce(native: ctypes.CDLL, threads: int, kind: str, dtype: str) -> None:
    rng = np.random.default_rng(7)
    for shape, dim in [((30,), 0), ((40, 50), 0), ((40, 50), 1), ((5, 60, 7), 1)]:
        for include_self in (True, False):
            x = values(rng, dtype, shape)
            src = values(rng, dtype, tuple(n + 3 for n in shape))
            if dtype in ("float16", "bfloat16", "float32", "float64") and kind[0] == "a":
                src.flat[5] = 0x7FC0 if dtype == "bfloat16" else np.nan
            index = rng.integers(
                0, shape[dim], tuple(n + (d == dim) * 2 for d, n in enumerate(shape))
            )
            want = as_torch(dtype, x).clone()
            torch.set_num_threads(1)
            want.scatter_reduce_(
                dim, torch.from_numpy(index), as_torch(dtype, src), kind, include_self=include_self
            )
            got = x.copy()
            status = native.scatter_along(
                KINDS[kind], dtype_number(dtype), strided(got), dim, strided(index), strided(src),
                include_self,
            )  # fmt: skip
            assert status
            assert_same(as_torch(dtype, got).float().numpy(), want.float().numpy())


@pytest.mark.parametrize("dtype", DTYPES)
def test_scatter_and_scatter_add(native: ctypes.CDLL, threads: int, dtype: str) -> None:
    rng = np.random.default_rng(8)
    for dim in (0, 1):
        x = values(rng, dtype, (60, 70))
        src = values(rng, dtype, (60, 70))
        index = np.argsort(rng.random((60, 70)), dim)  # no place twice
        number = dtype_number(dtype)
        got = x.copy()
        assert native.scatter_along(
            0, number, strided(got), dim, strided(index), strided(src), True
        )
        want = x.copy()
        np.put_along_axis(want, index, src, dim)
        assert_same(got, want)
        index = rng.integers(0, 60, (60, 70))
        added = as_torch(dtype, x).clone().scatter_add_(
            dim, torch.from_numpy(index), as_torch(dtype, src)
        )  # fmt: skip
        got = x.copy()
        assert native.scatter_along(
            1, number, strided(got), dim, strided(index), strided(src), True
        )
        assert_same(got, bits(dtype, added))


# ---- masks, counting, searching ------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0,), (1,), (100_000,), (300, 401), (5, 6, 7), ()], ids=str)
def test_masks_and_nonzero(native: ctypes.CDLL, threads: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(9)
    for density in (0.0, 0.3, 1.0):
        mask = np.asarray(rng.random(shape[::-1]) < density).T
        x = np.asarray(values(rng, "complex64", shape))
        count = native.mask_count(strided(mask))
        assert count == mask.sum()
        out = np.zeros(count, x.dtype)
        native.mask_select(8, ctypes.c_void_p(out.ctypes.data), strided(x), strided(mask))
        assert_same(out, x[mask])
        source = values(rng, "complex64", (count,))
        want = x.copy()
        want[mask] = source
        native.mask_scatter(8, strided(x), strided(mask), ctypes.c_void_p(source.ctypes.data))
        assert_same(x, want)
        places = np.zeros((count, len(shape)), np.int64)
        numbers = np.where(mask, 0.5, 0.0)
        double = dtype_number("float64")
        assert native.nonzero_count(double, strided(numbers)) == count
        native.nonzero_places(double, strided(numbers), ctypes.c_void_p(places.ctypes.data))
        assert_same(places, np.argwhere(mask))


def test_negative_zero_is_zero(native: ctypes.CDLL) -> None:
    x = np.array([0.0, -0.0, np.nan, 1e-8], np.float16)
    assert native.nonzero_count(dtype_number("float16"), strided(x)) == 1 + (x[3] != 0)


@pytest.mark.parametrize("weights", [None, "float32", "float64"])
def test_bincount(native: ctypes.CDLL, weights: str | None) -> None:
    rng = np.random.default_rng(10)
    x = rng.integers(0, 20, 5000)[::2]
    given = None if weights is None else values(rng, weights, (2500,))
    counts = np.zeros(25, np.int64 if weights is None else weights)
    native.count_bins(
        strided(x), None if given is None else strided(given), dtype_number(weights or "float64"),
        ctypes.c_int64(25), ctypes.c_void_p(counts.ctypes.data),
    )  # fmt: skip
    torch_weights = None if given is None else torch.from_numpy(given)
    want = torch.bincount(torch.from_numpy(x.copy()), torch_weights, 25).numpy()
    assert counts.dtype == want.dtype
    assert_same(counts, want)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize(
    "dtype", [d for d in DTYPES if d not in ("bool", "complex64", "complex128")]
)
def test_searchsorted(native: ctypes.CDLL, threads: int, dtype: str, right: bool) -> None:
    rng = np.random.default_rng(11)
    for rows, length, count in [(1, 1, 5), (7, 33, 10), (3, 20, 30_000), (2, 0, 4), (2, 5, 0)]:
        unsorted = as_torch(dtype, values(rng, dtype, (rows, length)))
        order = torch.argsort(unsorted, -1)
        ordered = unsorted.gather(-1, order)
        sought = as_torch(dtype, values(rng, dtype, (rows, count)))
        if count and length:
            sought[:, 0] = ordered[:, length // 2]
            if unsorted.is_floating_point():
                sought[:, -1] = float("nan")
        want = torch.searchsorted(ordered, sought, right=right).numpy()
        for given, sorter in ((ordered, None), (unsorted, order)):
            out = np.full((rows, count), -1)
            native.search(
                dtype_number(dtype), strided(out), strided(bits(dtype, given)),
                strided(bits(dtype, sought)), right,
                None if sorter is None else strided(sorter.numpy()),
            )  # fmt: skip
            assert_same(out, want)

"""Matrix products against numpy, and the promise of equal bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from products import (
    DTYPES,
    LARGE_SHAPES,
    LAYOUTS,
    SMALL_SHAPES,
    Array,
    Products,
    from_bfloat16,
    random_matrix,
    to_bfloat16,
    values,
)

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def products() -> Products:
    these = Products()
    these.native.use_threads(2)
    return these


def wide(dtype: str, x: Array) -> Array:
    """In a type that holds the product's terms without loss."""
    if dtype == "bfloat16":
        return from_bfloat16(x).astype(np.float64)
    if dtype in ("float16", "float32", "float64"):
        return x.astype(np.float64)
    if dtype.startswith("complex"):
        return x.astype(np.complex128)
    return x.astype(np.int64)


class Expected:
    """The product in a wide type, and how far from it a product in `dtype` may be."""

    def __init__(self, dtype: str, a: Array, b: Array) -> None:
        self.dtype = dtype
        self.exact = np.dtype(DTYPES[dtype]).kind in "iub" and dtype != "bfloat16"
        self.product = wide(dtype, a) @ wide(dtype, b)
        if not self.exact:
            # Every order of summation keeps within this.
            unit = 2**-53 if dtype in ("float64", "complex128") else 2**-24
            self.sizes = np.abs(wide(dtype, a)) @ np.abs(wide(dtype, b))
            self.unit = unit * (4 + a.shape[1] ** 0.5) * 2

    def check(self, got: Array, before: Array | None) -> None:
        """`before` is what the product was added to."""
        want = self.product if before is None else self.product + wide(self.dtype, before)
        if self.exact:
            np.testing.assert_array_equal(got, want.astype(DTYPES[self.dtype]))
            return
        size = np.abs(want)
        final = {"float16": 2**-11, "bfloat16": 2**-8}.get(self.dtype, 0.0)
        tiny = 2**-24 if self.dtype == "float16" else 0.0
        bound = self.unit * (self.sizes + size) + final * size + tiny
        assert (np.abs(wide(self.dtype, got) - want) <= bound).all()


def check(
    products: Products, dtype: str, shape: tuple[int, int, int], layouts: tuple[str, str]
) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m * 7919 + n * 31 + k)
    a = random_matrix(rng, dtype, m, k, layouts[0])
    b = random_matrix(rng, dtype, k, n, layouts[1])
    expected = Expected(dtype, a, b)
    for accumulate in (False, True):
        whole = values(rng, dtype, (m, n + 2))
        before = whole.copy()
        products.multiply(dtype, a, b, whole[:, :n], accumulate)
        expected.check(whole[:, :n], before[:, :n] if accumulate else None)
        np.testing.assert_array_equal(whole[:, n:], before[:, n:])


@pytest.mark.parametrize("shape", SMALL_SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_small_products_equal_numpy(
    products: Products, dtype: str, shape: tuple[int, int, int]
) -> None:
    for a_layout in [*LAYOUTS, "repeated"]:
        for b_layout in [*LAYOUTS, "repeated"]:
            check(products, dtype, shape, (a_layout, b_layout))


@pytest.mark.parametrize("shape", LARGE_SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_products_equal_numpy(
    products: Products, dtype: str, shape: tuple[int, int, int]
) -> None:
    check(products, dtype, shape, ("rows", "columns"))
    check(products, dtype, shape, ("columns", "rows"))
    check(products, dtype, shape, ("gaps", "gaps"))
    check(products, dtype, shape, ("strided", "rows"))
    check(products, dtype, shape, ("rows", "strided"))
    check(products, dtype, shape, ("repeated", "repeated"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_empty_products(products: Products, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for m, n, k in [(0, 3, 4), (3, 0, 4), (0, 0, 0), (3, 4, 0), (1, 300, 0), (300, 200, 0)]:
        check(products, dtype, (m, n, k), ("rows", "rows"))
    c = values(rng, dtype, (2, 2))
    products.multiply(dtype, values(rng, dtype, (2, 0)), values(rng, dtype, (0, 2)), c)
    assert not c.any()


def test_adding_into_c_equals_adding_the_product(products: Products) -> None:
    rng = np.random.default_rng(3)
    for m, n, k in [(128, 128, 1), (1, 128, 128), (7, 9, 100), (64, 64, 32)]:
        a, b, c = (values(rng, "float32", s) for s in [(m, k), (k, n), (m, n)])
        product = np.empty_like(c)
        products.multiply("float32", a, b, product)
        want = c + product
        products.multiply("float32", a, b, c, accumulate=True)
        np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("shape", [(5, 6, 7), (1, 100, 200), (200, 100, 300)], ids=str)
def test_bfloat16_is_rounded_once(products: Products, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(4)
    a, b, c = (rng.integers(-8, 9, s).astype(np.float32) for s in [(m, k), (k, n), (m, n)])
    want = to_bfloat16(a @ b + c * 256)  # exact in float32
    got = to_bfloat16(c * 256)
    products.multiply("bfloat16", to_bfloat16(a), to_bfloat16(b), got, accumulate=True)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int16", "complex64"])
@pytest.mark.parametrize(
    "sizes", [(7, 3, 4, 5), (200, 8, 8, 8), (3, 150, 160, 170), (9, 1, 20, 30)]
)
def test_batches(products: Products, dtype: str, sizes: tuple[int, int, int, int]) -> None:
    batch, m, n, k = sizes
    rng = np.random.default_rng(5)
    a = values(rng, dtype, (batch, m, k))
    c = values(rng, dtype, (batch, m, n))
    for b in (
        values(rng, dtype, (batch, k, n)),
        np.broadcast_to(values(rng, dtype, (k, n)), (batch, k, n)),
        values(rng, dtype, (batch, n, k)).transpose(0, 2, 1),
    ):
        for accumulate in (False, True):
            got = c.copy()
            products.multiply_batch(dtype, a, b, got, accumulate)
            for i in range(batch):
                Expected(dtype, a[i], b[i]).check(got[i], c[i] if accumulate else None)


def hashes(threads: int, **environment: str) -> dict[str, str]:
    output = subprocess.run(
        [sys.executable, HERE / "products.py", str(threads)],
        env={**os.environ, **environment}, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    return json.loads(output.stdout)


@pytest.mark.parametrize("carrier", ["library", "portable"])
def test_the_same_bits_for_any_number_of_threads(carrier: str) -> None:
    alone = hashes(1, WEFT_GEMM=carrier)
    for threads in (2, 3, 4, 8):
        assert hashes(threads, WEFT_GEMM=carrier) == alone


def test_small_products_have_the_same_bits_on_every_instruction_set() -> None:
    def small(isa: str) -> dict[str, str]:
        names = [f" {m}x{n}x{k} " for m, n, k in SMALL_SHAPES]
        of_all = hashes(1, WEFT_CPU=isa)
        return {name: bits for name, bits in of_all.items() if any(s in name for s in names)}

    widest = small("avx512")
    assert len(widest) > 100
    assert small("avx2") == widest
    assert small("baseline") == widest


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_portable_products_equal_numpy(isa: str) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
        "import test_gemm as t\n"
        "p = t.Products()\n"
        "for d in ('float32', 'float64', 'bfloat16'):\n"
        "    for s in t.LARGE_SHAPES:\n"
        "        for l in (('rows', 'columns'), ('strided', 'gaps')):\n"
        "            t.check(p, d, s, l)\n"
        "print(p.native.describe().decode())\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], cwd=HERE, check=True, stdout=subprocess.PIPE,
        env={**os.environ, "WEFT_GEMM": "portable", "WEFT_CPU": isa},
    )  # fmt: skip
    assert b"oneDNN" not in output.stdout


# ---- the pool ------------------------------------------------------------------------------------


def test_every_piece_runs_once(products: Products) -> None:
    for threads in (1, 2, 3, 8, 2):
        products.native.use_threads(threads)
        assert products.native.threads() == threads
        for count in (0, 1, 2, 5, 1000):
            counters = np.zeros(count + 1, np.int64)
            products.native.count_pieces(
                *(np.ctypeslib.ctypes.c_int64(i) for i in (count, 3)),
                np.ctypeslib.ctypes.c_void_p(counters.ctypes.data),
            )
            assert (counters[:count] == 4).all()
            assert counters[count] == 0
    products.native.use_threads(2)


def test_several_threads_call_at_once(products: Products) -> None:
    rng = np.random.default_rng(6)
    a, b = values(rng, "float32", (200, 300)), values(rng, "float32", (300, 250))
    want = np.empty((200, 250), np.float32)
    products.multiply("float32", a, b, want)
    wrong = []

    def work() -> None:
        c = np.empty_like(want)
        for _ in range(100):
            products.multiply("float32", a, b, c)
            if not np.array_equal(c, want):
                wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_a_forked_child_works(products: Products) -> None:
    rng = np.random.default_rng(8)
    a = values(rng, "float32", (300, 300))
    want, got = np.empty_like(a), np.empty_like(a)
    products.multiply("float32", a, a, want)
    child = os.fork()
    if child == 0:
        ok = products.native.threads() == 1
        for threads in (1, 2):
            products.native.use_threads(threads)
            products.multiply("float32", a, a, got)
            ok = ok and np.array_equal(got, want)
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    products.multiply("float32", a, a, got)
    np.testing.assert_array_equal(got, want)

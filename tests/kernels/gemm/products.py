"""Builds the products and the indexing kernels, once per state of the sources, and calls products.

As a program it prints the hashes of many products' bits, for the settings of its environment:
WEFT_CPU, WEFT_GEMM and the number of threads given as its argument.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
CPU = ROOT / "core/kernels/cpu"

WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
ARITHMETIC = ["-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv"]
FLAGS = ["-std=c++20", "-O3", "-fPIC", *ARITHMETIC, *WARNINGS]
ISAS = {
    "baseline": [],
    "avx2": ["-mavx2", "-mfma", "-mf16c"],
    "avx512": [f"-mavx512{part}" for part in ("f", "bw", "dq", "vl", "cd")]
    + ["-mfma", "-mf16c", "-mprefer-vector-width=512"],
}
SOURCES = ["threads", "isa", "libraries", "gemm", "gemm_plain"]
SOURCES += ["indexing", "indexing_copy", "indexing_select"]
ISA_SOURCES = ["gemm_small", "gemm_blocked", "gemm_half", "indexing_kernels", "transpose_kernels"]

# In the order of core/math/dtype.h; bfloat16 as its bits.
DTYPES = {
    "bool": np.bool_,
    "uint8": np.uint8,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "float16": np.float16,
    "bfloat16": np.uint16,
    "float32": np.float32,
    "float64": np.float64,
    "complex64": np.complex64,
    "complex128": np.complex128,
}
DTYPE_NAMES = list(DTYPES)

Array = NDArray[np.generic]


def compile_object(source: Path, output: Path, flags: list[str]) -> None:
    subprocess.run(["g++", *FLAGS, *flags, f"-I{ROOT}", "-c", source, "-o", output], check=True)


def build() -> Path:
    """The library, in the temporary folder under a name that says what it is made of."""
    headers = [*CPU.glob("*.h"), *(ROOT / "core/math").glob("*.h")]
    sources = [CPU / f"{name}.cpp" for name in SOURCES] + sorted(HERE.glob("*driver.cpp"))
    isa_sources = [CPU / f"isa/{name}.cpp" for name in ISA_SOURCES]
    digest = hashlib.sha256()
    for file in sorted([*headers, *sources, *isa_sources, Path(__file__)]):
        digest.update(file.read_bytes())
    folder = Path(tempfile.gettempdir()) / f"weft-products-{digest.hexdigest()[:16]}"
    library = folder / "products.so"
    if library.exists():
        return library
    folder.mkdir(exist_ok=True)
    objects = []
    include = Path(sysconfig.get_paths()["data"]) / "include"
    onednn = ["-DWEFT_WITH_ONEDNN=1", "-isystem", str(include)]
    for source in sources:
        objects.append(folder / f"{source.stem}.o")
        compile_object(source, objects[-1], onednn if (include / "oneapi").exists() else [])
    for isa, flags in ISAS.items():
        for source in isa_sources:
            objects.append(folder / f"{source.stem}_{isa}.o")
            compile_object(source, objects[-1], [f"-DWEFT_ISA={isa}", *flags])
    linked = folder / "linking.so"
    subprocess.run(["g++", "-shared", *objects, "-o", linked, "-pthread", "-ldl"], check=True)
    linked.rename(library)
    return library


def library_folder() -> Path:
    """A folder with links to what PyPI's packages bring."""
    folder = build().parent / "lib"
    folder.mkdir(exist_ok=True)
    paths = sysconfig.get_paths()
    for file in (
        Path(paths["data"]) / "lib/libdnnl.so.3",
        Path(paths["purelib"]) / "scipy_openblas32/lib/libscipy_openblas.so",
    ):
        link = folder / file.name
        if file.exists() and not link.exists():
            link.symlink_to(file)
    return folder


class Products:
    def __init__(self) -> None:
        self.native = ctypes.CDLL(str(build()))
        self.native.describe.restype = ctypes.c_char_p
        self.native.use_libraries_in(str(library_folder()).encode())

    def multiply(self, dtype: str, a: Array, b: Array, c: Array, accumulate: bool = False) -> None:
        """c = a b, or c += a b, on the arrays' own memory."""
        (m, k), n = a.shape, b.shape[1]
        assert c.strides[1] == c.itemsize or c.size == 0 or n == 1
        self.native.product(
            DTYPE_NAMES.index(dtype), *map(ctypes.c_int64, (m, n, k)), *pointer(a), *pointer(b),
            ctypes.c_void_p(c.ctypes.data), ctypes.c_int64(c.strides[0] // c.itemsize),
            ctypes.c_bool(accumulate),
        )  # fmt: skip

    def multiply_batch(
        self, dtype: str, a: Array, b: Array, c: Array, accumulate: bool = False
    ) -> None:
        batch, m, n = c.shape
        self.native.products(
            DTYPE_NAMES.index(dtype), *map(ctypes.c_int64, (batch, m, n, a.shape[2])),
            *pointer(a), *pointer(b), *pointer(c)[:3], ctypes.c_bool(accumulate),
        )  # fmt: skip


def pointer(x: Array) -> list[ctypes.c_void_p | ctypes.c_int64]:
    strides = [ctypes.c_int64(stride // x.itemsize) for stride in x.strides]
    return [ctypes.c_void_p(x.ctypes.data), *strides]


def to_bfloat16(x: NDArray[np.float32]) -> NDArray[np.uint16]:
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def random_matrix(
    rng: np.random.Generator, dtype: str, rows: int, columns: int, layout: str
) -> Array:
    """Adjacent "rows" or "columns", "gaps" after rows, "strided" both ways, "repeated" rows."""
    stored = {
        "rows": (rows, columns),
        "columns": (columns, rows),
        "gaps": (rows, columns + 3),
        "strided": (2 * rows, 3 * columns),
        "repeated": (1, columns),
    }[layout]
    x = values(rng, dtype, stored)
    if layout == "columns":
        return x.T
    if layout == "gaps":
        return x[:, :columns]
    if layout == "strided":
        return x[::2, ::3]
    if layout == "repeated":
        return np.broadcast_to(x, (rows, columns))
    return x


def values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    kind = np.dtype(DTYPES[dtype])
    if dtype == "bfloat16":
        return to_bfloat16(rng.standard_normal(shape).astype(np.float32))
    if dtype == "bool":
        return rng.random(shape) < 0.3
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return rng.integers(info.min, info.max, shape, kind, endpoint=True)
    if kind.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(kind)
    return rng.standard_normal(shape).astype(kind)


# Direct, library and split products, with and without ends that fit no vector.
SMALL_SHAPES = [
    (1, 1, 1), (2, 4, 4), (3, 5, 7), (1, 128, 128), (128, 1, 128), (128, 128, 1), (1, 1, 777),
    (17, 10, 33), (4, 10, 128), (5, 21, 300), (16, 16, 16), (32, 31, 30), (1, 70, 3), (6, 3, 513),
]  # fmt: skip
LARGE_SHAPES = [
    (65, 64, 66), (130, 257, 70), (300, 200, 520), (40, 60, 4100), (1, 1000, 900), (1100, 1, 800),
    (1, 1, 50000), (2000, 3, 40),
]  # fmt: skip
LAYOUTS = ["rows", "columns", "gaps", "strided"]


def hashes(products: Products) -> Iterator[tuple[str, str]]:
    rng = np.random.default_rng(7)
    for dtype in ("float32", "float64", "bfloat16", "float16", "int32"):
        for m, n, k in SMALL_SHAPES + LARGE_SHAPES:
            for layout in LAYOUTS:
                a = random_matrix(rng, dtype, m, k, "rows")
                b = random_matrix(rng, dtype, k, n, layout)
                c = random_matrix(rng, dtype, m, n, "rows")
                products.multiply(dtype, a, b, c, accumulate=True)
                name = f"{dtype} {m}x{n}x{k} {layout}"
                yield name, hashlib.sha256(c.tobytes()).hexdigest()[:16]


if __name__ == "__main__":
    these = Products()
    these.native.use_threads(int(sys.argv[1]))
    json.dump(dict(hashes(these)), sys.stdout)

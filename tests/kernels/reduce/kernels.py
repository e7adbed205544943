"""The reduction, scan, sort, softmax and random kernels, called on numpy arrays.

They are compiled here with plain g++, once for all sources with the same text, and loaded three
times: once for each instruction set that this machine has.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
CPU = ROOT / "core" / "kernels" / "cpu"

# Without unique symbols, the copies loaded for each instruction set stay apart.
FLAGS = (
    "-std=c++20 -O3 -fPIC -fno-gnu-unique -ffp-contract=off -fno-math-errno -fno-trapping-math "
    "-fwrapv -Wno-psabi"
)
AVX2 = "-mavx2 -mfma -mf16c"
ISA_FLAGS = {
    "baseline": "",
    "avx2": AVX2,
    "avx512": f"{AVX2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd "
    "-mprefer-vector-width=512",
}
COMMON = ["reduce", "reduce_plan", "scan", "sort", "select", "random", "softmax", "threads", "isa"]

TYPES = [
    *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16"),
    *("float32", "float64", "complex64", "complex128"),
]
CODES = {np.dtype(name): code for code, name in enumerate(TYPES) if name != "bfloat16"}
BFLOAT16 = TYPES.index("bfloat16")

REDUCTIONS = [
    *("sum", "mean", "prod", "amax", "amin", "any", "all", "count_nonzero"),
    *("nansum", "sum_of_squares", "sum_of_abs", "norm"),
    *("argmax", "argmin", "max_with_index", "min_with_index"),
]
DISTRIBUTIONS = [
    *("uniform", "normal", "log_normal", "exponential", "cauchy"),
    *("geometric", "bernoulli", "permutation"),
]


class Strided(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("ndim", ctypes.c_int),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    )


def int64s(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * max(1, len(values)))(*values)


def strided(a: np.ndarray, dims: Sequence[int] | None = None) -> Any:
    """A description of `a`, of some of its dims if they are given."""
    kept = range(a.ndim) if dims is None else dims
    view = Strided(
        a.ctypes.data,
        len(kept),
        int64s([a.shape[d] for d in kept]),
        int64s([a.strides[d] for d in kept]),
    )
    return ctypes.byref(view)


def compile_one(source: Path, flags: str, to: Path) -> Path:
    command = ["g++", *FLAGS.split(), *flags.split(), f"-I{ROOT}", "-c", str(source), "-o", str(to)]
    subprocess.run(command, check=True)
    return to


@cache
def library_path() -> Path:
    """The compiled library, from an earlier run if no source has changed since."""
    sets = sorted(
        path
        for kind in ("reduce", "scan", "softmax", "random", "select", "transpose")
        for path in (CPU / "isa").glob(f"{kind}_*.cpp")
    )
    common = [CPU / f"{name}.cpp" for name in COMMON] + [Path(__file__).with_name("entry.cpp")]
    headers = [*CPU.glob("*.h"), *(CPU / "isa").glob("*.h"), *(ROOT / "core" / "math").glob("*.h")]
    text = b"".join(path.read_bytes() for path in [*sets, *common, *sorted(headers)])
    digest = hashlib.sha256(text + FLAGS.encode() + str(ISA_FLAGS).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"weft-reduce-kernels-{digest}"
    library = folder / "kernels.so"
    if library.exists():
        return library
    folder.mkdir(exist_ok=True)
    objects = [compile_one(path, "", folder / f"{path.stem}.o") for path in common]
    for isa, flags in ISA_FLAGS.items():
        for path in sets:
            to = folder / f"{path.stem}.{isa}.o"
            objects.append(compile_one(path, f"{flags} -DWEFT_ISA={isa}", to))
    made = folder / f"kernels-{os.getpid()}.so"
    names = [str(path) for path in objects]
    subprocess.run(
        ["g++", "-shared", "-Wl,-Bsymbolic", "-o", str(made), *names, "-lpthread"], check=True
    )
    made.rename(library)
    return library


class Kernels:
    """The library as it behaves with one instruction set."""

    def __init__(self, isa: str) -> None:
        copy = library_path().with_name(f"{isa}-{os.getpid()}.so")
        shutil.copy(library_path(), copy)
        before = os.environ.get("WEFT_CPU")
        os.environ["WEFT_CPU"] = isa
        try:
            self.lib = ctypes.CDLL(str(copy))
            self.lib.isa.restype = ctypes.c_char_p
            self.isa = self.lib.isa().decode()
        finally:
            copy.unlink()
            if before is None:
                del os.environ["WEFT_CPU"]
            else:
                os.environ["WEFT_CPU"] = before
        for name in ("unique_c", "fill_c", "integers_c", "bernoulli_c", "multinomial_c"):
            getattr(self.lib, name).restype = ctypes.c_int64

    def threads(self, n: int) -> None:
        self.lib.threads(n)

    # ---- reductions ------------------------------------------------------------------------------

    def reduce(
        self,
        kind: str,
        x: np.ndarray,
        dims: Sequence[int] | None = None,
        out: np.dtype | type | None = None,
        code: int | None = None,
    ) -> Any:
        """Reduces over `dims` (all of them without). `code` names a type that numpy lacks."""
        reduced = list(range(x.ndim)) if dims is None else [d % x.ndim for d in dims]
        kept = [d for d in range(x.ndim) if d not in reduced]
        out_type = np.dtype(out if out is not None else natural_out(kind, x.dtype))
        in_code = CODES[x.dtype] if code is None else code
        out_code = CODES[out_type] if code is None or out is not None else code
        shape = [x.shape[d] for d in kept]
        result = np.zeros(shape, out_type)
        index = np.zeros(shape, np.int64)
        self.lib.reduce_c(
            REDUCTIONS.index(kind),
            in_code,
            out_code,
            ctypes.c_void_p(result.ctypes.data),
            strided(x, kept),
            len(reduced),
            int64s([x.shape[d] for d in reduced]),
            int64s([x.strides[d] for d in reduced]),
            index.ctypes.data_as(ctypes.POINTER(ctypes.c_int64)),
        )
        return (result, index) if kind.endswith("with_index") else result

    def moments(
        self, x: np.ndarray, dims: Sequence[int], spread: int, correction: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and spread (0: sum of squares, 1: variance, 2: deviation)."""
        reduced = [d % x.ndim for d in dims]
        kept = [d for d in range(x.ndim) if d not in reduced]
        mean = np.zeros([x.shape[d] for d in kept], x.dtype)
        around = np.zeros_like(mean)
        self.lib.moments_c(
            CODES[x.dtype],
            CODES[x.dtype],
            ctypes.c_void_p(mean.ctypes.data),
            ctypes.c_void_p(around.ctypes.data),
            spread,
            ctypes.c_double(correction),
            strided(x, kept),
            len(reduced),
            int64s([x.shape[d] for d in reduced]),
            int64s([x.strides[d] for d in reduced]),
        )
        return mean, around

    # ---- along one dim ---------------------------------------------------------------------------

    def scan(
        self, kind: int, x: np.ndarray, dim: int, out: np.dtype | type | None = None
    ) -> np.ndarray:
        """0: sums, 1: products, 2: log-sum-exps. The result has the memory layout of x."""
        y = np.zeros_like(x, dtype=out or x.dtype)
        self.lib.scan_c(kind, CODES[x.dtype], CODES[y.dtype], strided(x), strided(y), dim % x.ndim)
        return y

    def extreme(self, smallest: bool, x: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
        values, indices = np.zeros_like(x), np.zeros(x.shape, np.int64)
        self.lib.extreme_c(
            int(smallest),
            CODES[x.dtype],
            strided(x),
            strided(values),
            strided(indices),
            dim % x.ndim,
        )
        return values, indices

    def softmax(self, log: bool, x: np.ndarray, dim: int) -> np.ndarray:
        y = np.zeros_like(x)
        self.lib.softmax_c(
            int(log), CODES[x.dtype], CODES[y.dtype], strided(x), strided(y), dim % x.ndim
        )
        return y

    def softmax_backward(self, log: bool, grad: np.ndarray, y: np.ndarray, dim: int) -> np.ndarray:
        result = np.zeros_like(y)
        code = CODES[y.dtype]
        self.lib.softmax_backward_c(
            int(log), code, code, strided(grad), strided(y), strided(result), dim % y.ndim
        )
        return result

    def log_sum_exp(self, x: np.ndarray, dim: int) -> np.ndarray:
        shape = list(x.shape)
        shape[dim] = 1
        y = np.zeros(shape, x.dtype)
        self.lib.log_sum_exp_c(CODES[x.dtype], CODES[x.dtype], strided(x), strided(y), dim % x.ndim)
        return y.squeeze(dim)

    def sort(
        self, x: np.ndarray, dim: int, descending: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        values, indices = np.zeros_like(x), np.zeros(x.shape, np.int64)
        self.lib.sort_c(
            CODES[x.dtype], descending, strided(x), strided(values), strided(indices), dim % x.ndim
        )
        return values, indices

    def select(
        self, what: str, x: np.ndarray, dim: int, k: int = 1, flag: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """`what` is topk, kth, median or mode; `flag` is `largest` or `ignore_nan`."""
        shape = list(x.shape)
        shape[dim] = k if what == "topk" else 1
        values, indices = np.zeros(shape, x.dtype), np.zeros(shape, np.int64)
        arguments: list[Any] = {
            "topk": [ctypes.c_int64(k), flag],
            "kth": [ctypes.c_int64(k)],
            "median": [flag],
            "mode": [],
        }[what]
        getattr(self.lib, f"{what}_c")(
            CODES[x.dtype], *arguments, strided(x), strided(values), strided(indices), dim % x.ndim
        )
        return values, indices

    def unique(
        self, x: np.ndarray, consecutive: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        values = np.zeros_like(x)
        inverse, counts = np.zeros(x.size, np.int64), np.zeros(x.size, np.int64)
        found = self.lib.unique_c(
            CODES[x.dtype],
            consecutive,
            *(ctypes.c_void_p(x.ctypes.data), ctypes.c_int64(x.size)),
            *(ctypes.c_void_p(a.ctypes.data) for a in (values, inverse, counts)),
        )
        return values[:found], inverse, counts[:found]

    # ---- random numbers --------------------------------------------------------------------------

    def fill(
        self,
        what: str,
        n: int,
        dtype: np.dtype | type = np.float32,
        a: float = 0.0,
        b: float = 1.0,
        seed: int = 1,
        offset: int = 0,
    ) -> tuple[np.ndarray, int]:
        out = np.zeros(n, dtype)
        steps = self.lib.fill_c(
            DISTRIBUTIONS.index(what),
            *(ctypes.c_uint64(seed), ctypes.c_uint64(offset), CODES[out.dtype]),
            *(ctypes.c_double(a), ctypes.c_double(b)),
            *(ctypes.c_void_p(out.ctypes.data), ctypes.c_int64(n)),
        )
        return out, steps

    def integers(
        self, n: int, low: int, high: int, dtype: np.dtype | type = np.int64, seed: int = 1
    ) -> np.ndarray:
        out = np.zeros(n, dtype)
        self.lib.integers_c(
            *(ctypes.c_uint64(seed), ctypes.c_uint64(0), CODES[out.dtype]),
            *(ctypes.c_int64(low), ctypes.c_int64(high)),
            *(ctypes.c_void_p(out.ctypes.data), ctypes.c_int64(n)),
        )
        return out

    def bernoulli(self, p: np.ndarray, seed: int = 1) -> np.ndarray:
        out = np.zeros(p.size, np.bool_)
        self.lib.bernoulli_c(
            *(ctypes.c_uint64(seed), ctypes.c_uint64(0), CODES[out.dtype], CODES[p.dtype]),
            *(ctypes.c_void_p(p.ctypes.data), ctypes.c_void_p(out.ctypes.data)),
            ctypes.c_int64(p.size),
        )
        return out

    def multinomial(
        self, weights: np.ndarray, draws: int, replacement: bool, seed: int = 1
    ) -> np.ndarray | None:
        """None where the weights are not accepted."""
        rows, categories = weights.shape
        out = np.zeros((rows, draws), np.int64)
        steps = self.lib.multinomial_c(
            *(ctypes.c_uint64(seed), ctypes.c_uint64(0), CODES[weights.dtype]),
            *(ctypes.c_void_p(weights.ctypes.data), ctypes.c_int64(rows)),
            *(ctypes.c_int64(categories), ctypes.c_int64(draws), replacement),
            ctypes.c_void_p(out.ctypes.data),
        )
        return None if steps < 0 else out

    def philox(self, seed: int, counter: int) -> list[int]:
        words = (ctypes.c_uint32 * 4)()
        self.lib.philox_c(ctypes.c_uint64(seed), ctypes.c_uint64(counter), words)
        return list(words)


def natural_out(kind: str, dtype: np.dtype) -> np.dtype:
    if kind in ("any", "all"):
        return np.dtype(np.bool_)
    if kind in ("count_nonzero", "argmax", "argmin"):
        return np.dtype(np.int64)
    if kind in ("sum", "prod") and dtype.kind in "biu":
        return np.dtype(np.int64)
    return dtype


@cache
def all_kernels() -> tuple[Kernels, ...]:
    """One for each instruction set that this machine has, the best one first."""
    loaded = [Kernels(isa) for isa in reversed(ISA_FLAGS)]
    return tuple(
        k for k, wanted in zip(loaded, reversed(ISA_FLAGS), strict=True) if k.isa == wanted
    )


def best() -> Kernels:
    return all_kernels()[0]


def bits(a: np.ndarray) -> bytes:
    """The bits of an array in row-major order; all NaNs are one."""
    a = np.array(a, order="C")
    if a.dtype.kind in "fc":
        parts = a.view(a.real.dtype) if a.ndim else a.reshape(1).view(a.real.dtype)
        parts[np.isnan(parts)] = np.nan
    return a.tobytes()


def layouts(a: np.ndarray) -> list[np.ndarray]:
    """The same values in different memory: dense, every permutation of dims, padded, reversed."""
    made = [np.ascontiguousarray(a), np.asfortranarray(a)]
    padded = np.zeros([2 * size + 3 for size in a.shape], a.dtype)
    window = padded[tuple(slice(1, 1 + 2 * size, 2) for size in a.shape)]
    window[...] = a
    made.append(window)
    backwards = tuple(slice(None, None, -1) for _ in a.shape)
    made.append(np.ascontiguousarray(a[backwards])[backwards])
    if a.ndim >= 3:
        order = [1, 2, 0, *range(3, a.ndim)]
        made.append(np.ascontiguousarray(a.transpose(order)).transpose(np.argsort(order)))
    return made

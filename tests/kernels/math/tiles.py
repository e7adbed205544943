"""Builds the tile kernels for all instruction sets and calls them."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent


def words(text: str) -> list[str]:
    return text.split()


COMMON_FLAGS = words(
    "-std=c++20 -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math -fPIC -Wall -Wextra"
)
ISAS = {
    "baseline": [],
    "avx2": words("-mavx2 -mfma -mf16c"),
    "avx512": words(
        "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c -mprefer-vector-width=512"
    ),
}

# DType in the order of core/math/dtype.h; float16 and bfloat16 as raw bits where numpy lacks them.
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


class Scalar(ctypes.Structure):
    """weft::math::Scalar: what floats and what integers read of one attribute."""

    _fields_ = [("real", ctypes.c_double), ("integer", ctypes.c_int64)]


def doubles(*values: float) -> ctypes.Array[ctypes.c_double]:
    return (ctypes.c_double * len(values))(*values)


# One set of attributes for each functor that has some.
ATTRIBUTES: dict[str, ctypes.Structure | ctypes.Array | ctypes._SimpleCData] = {
    "add_scaled": Scalar(0.7, 3),
    "addcmul": Scalar(-1.3, 2),
    "addcdiv": Scalar(0.4, 1),
    "round_decimals": ctypes.c_int(2),
    "nan_to_num": doubles(0.5, 1e30, -1e30),
    "logit": doubles(-1.0),
    "polygamma": ctypes.c_int(2),
    "softplus": doubles(1.5, 20.0),
    "softplus_grad": doubles(1.5, 20.0),
    "elu": doubles(1.2, 1.05, 0.9),
    "elu_grad": doubles(1.2, 1.05, 0.9),
    "leaky_relu": doubles(0.01),
    "leaky_relu_grad": doubles(0.01),
    "hardtanh": doubles(-1.0, 1.5),
    "hardtanh_grad": doubles(-1.0, 1.5),
}


def build() -> Path:
    """The library, compiled into build/ under a name that says what it is made of."""
    sources = sorted((ROOT / "core/kernels/cpu/isa").glob("tiles_*.cpp"))
    headers = sorted(
        [
            *(ROOT / "core/math").glob("*.h"),
            *(ROOT / "core/kernels/cpu/isa").glob("tiles_*.h"),
            ROOT / "core/kernels/cpu/tiles.h",
            ROOT / "core/kernels/cpu/isa.h",
        ]
    )
    driver = HERE / "tile_driver.cpp"
    digest = hashlib.sha256(repr((COMMON_FLAGS, ISAS)).encode())
    for path in [*sources, *headers, driver]:
        digest.update(path.read_bytes())
    finished = ROOT / "build/tests" / f"libtiles-{digest.hexdigest()[:16]}.so"
    if finished.exists():
        return finished
    finished.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=finished.parent) as name:
        folder = Path(name)
        objects = []
        for isa, flags in ISAS.items():
            for source in sources:
                target = folder / f"{isa}_{source.stem}.o"
                command = ["g++", *COMMON_FLAGS, *flags, f"-DWEFT_ISA={isa}", f"-I{ROOT}"]
                subprocess.run([*command, "-c", str(source), "-o", str(target)], check=True)
                objects.append(str(target))
        linked = folder / "libtiles.so"
        command = ["g++", *COMMON_FLAGS, "-O1", f"-I{ROOT}", "-shared", str(driver), *objects]
        subprocess.run([*command, "-o", str(linked)], check=True)
        for older in finished.parent.glob("libtiles-*.so"):
            older.unlink(missing_ok=True)
        linked.rename(finished)
    return finished


def can_build() -> bool:
    return shutil.which("g++") is not None


@functools.cache
def library() -> ctypes.CDLL:
    lib = ctypes.CDLL(str(build()))
    lib.elementwise_name.restype = ctypes.c_char_p
    lib.machine_has.restype = ctypes.c_bool
    lib.time_tile.restype = ctypes.c_double
    for index, name in enumerate(operations()):
        assert lib.elementwise_name(index) == name.encode()
    assert lib.elementwise_count() == len(operations())
    return lib


# The sets of dtypes that core/math/list.h names.
INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
TYPE_SETS = {
    "kIntTypes": INTEGERS,
    "kFloatTypes": ["float32", "float64"],
    "kDiscreteTypes": ["bool", *INTEGERS],
    "kNumberTypes": [*INTEGERS, "float32", "float64"],
    "kAllTypes": ["bool", *INTEGERS, "float32", "float64"],
}


@dataclass(frozen=True)
class Operation:
    index: int
    arity: int
    dtypes: list[str]


@functools.cache
def operations() -> dict[str, Operation]:
    """Every element-wise operation, read from the list itself so that nothing need be compiled."""
    text = (ROOT / "core/math/list.h").read_text()
    lines = re.findall(r"^  X\((\w+), (\w+), (\d), (\w+)\)", text, re.MULTILINE)
    return {
        name: Operation(index, int(arity), TYPE_SETS[types])
        for index, (name, _, arity, types) in enumerate(lines)
    }


def arity_of(name: str) -> int:
    return operations()[name].arity


def dtypes_of(name: str) -> list[str]:
    return operations()[name].dtypes


def isas_here() -> list[str]:
    return [isa for i, isa in enumerate(ISAS) if library().machine_has(i)]


def pointer(array: Array | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if array is None else array.ctypes.data)


PREDICATES = set(
    words(
        """
        eq ne lt le gt ge logical_not logical_and logical_or logical_xor isnan isinf isfinite
        isposinf isneginf signbit
        """
    )
)


def attributes_pointer(name: str, attributes: object | None) -> ctypes.c_void_p:
    chosen = attributes if attributes is not None else ATTRIBUTES.get(name)
    return ctypes.c_void_p(ctypes.addressof(chosen) if chosen is not None else None)  # type: ignore[arg-type]


def run(
    name: str,
    operands: Sequence[Array],
    *,
    isa: str = "avx512",
    dtype: str | None = None,
    attributes: object | None = None,
    out: Array | None = None,
) -> Array:
    """One tile kernel over whole arrays of equal length."""
    dtype = dtype or operands[-1].dtype.name
    if out is None:
        out_dtype = np.bool_ if name in PREDICATES else operands[-1].dtype
        out = np.empty(len(operands[0]), out_dtype)
    padded = [*operands, None, None][:3]
    status = library().run_tile(
        list(ISAS).index(isa),
        operations()[name].index,
        DTYPE_NAMES.index(dtype),
        attributes_pointer(name, attributes),
        ctypes.c_int64(len(out)),
        pointer(out),
        *(pointer(operand) for operand in padded),
    )
    assert status == 0, f"no tile kernel of {name} for {dtype}"
    return out


def cast(x: Array, source: str, target: str, *, isa: str = "avx512") -> Array:
    out = np.empty(len(x), DTYPES[target])
    status = library().run_cast(
        list(ISAS).index(isa),
        DTYPE_NAMES.index(source),
        DTYPE_NAMES.index(target),
        ctypes.c_int64(len(x)),
        pointer(out),
        pointer(x),
    )
    assert status == 0, f"no cast of {source} to {target}"
    return out


def same_bits(a: Array, b: Array) -> NDArray[np.bool_]:
    """Element by element; any NaN equals any NaN."""
    if a.dtype.kind == "c":
        parts_a, parts_b = a.view(a.real.dtype), b.view(b.real.dtype)
        return same_bits(parts_a, parts_b).reshape(-1, 2).all(axis=1)
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    equal: NDArray[np.bool_] = a.view(unsigned) == b.view(unsigned)
    if a.dtype.kind == "f":
        equal |= np.isnan(a) & np.isnan(b)
    return equal

"""The same input gives the same bits on every instruction set, for any length and alignment."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from . import tiles

pytestmark = pytest.mark.skipif(not tiles.can_build(), reason="no g++")

COUNT = 40_000


def values(dtype: str, seed: int, count: int = COUNT) -> np.ndarray:
    """Random bit patterns, moderate numbers, and everything special, mixed."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(tiles.DTYPES[dtype])
    if kind == np.bool_:
        return rng.integers(0, 2, count).astype(np.bool_)
    bits = rng.bytes(count * kind.itemsize)
    anything = np.frombuffer(bits, kind).copy()
    small = rng.integers(-9, 10, count)
    if kind.kind not in "fc":
        return np.where(rng.random(count) < 0.5, anything, small.astype(kind)).astype(kind)
    moderate = (rng.standard_normal(count) * 10.0 ** rng.integers(-3, 3, count)).astype(kind)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1e-40], kind)
    choice = rng.integers(0, 10, count)
    mixed = np.where(choice < 4, anything, np.where(choice < 8, moderate, small.astype(kind)))
    return np.where(choice == 9, special[rng.integers(0, len(special), count)], mixed)


def operands_of(name: str, dtype: str) -> list[np.ndarray]:
    operands = [values(dtype, seed) for seed in range(tiles.arity_of(name))]
    if name == "where":
        operands[0] = values("bool", 0)
    return operands


EVERY_CASE = [(name, dtype) for name in tiles.operations() for dtype in tiles.dtypes_of(name)]


@pytest.mark.parametrize(("name", "dtype"), EVERY_CASE)
def test_instruction_sets_agree(name: str, dtype: str) -> None:
    operands = operands_of(name, dtype)
    isas = tiles.isas_here()
    reference = tiles.run(name, operands, isa=isas[0], dtype=dtype)
    for isa in isas[1:]:
        result = tiles.run(name, operands, isa=isa, dtype=dtype)
        wrong = np.flatnonzero(~tiles.same_bits(reference, result))
        shown = [([o[i] for o in operands], reference[i], result[i]) for i in wrong[:5]]
        assert len(wrong) == 0, f"{isa}: {len(wrong)} of {COUNT}: {shown}"


@pytest.mark.parametrize(("name", "dtype"), EVERY_CASE)
def test_position_does_not_matter(name: str, dtype: str) -> None:
    """Vector body, vector tail, scalar tail and the output in place of an operand all agree."""
    operands = [o[:1203] for o in operands_of(name, dtype)]
    isa = tiles.isas_here()[-1]
    whole = tiles.run(name, operands, isa=isa, dtype=dtype)
    for start, length in ((1, 1), (3, 7), (5, 31), (2, 65), (7, 700)):
        piece = [o[start : start + length].copy() for o in operands]
        result = tiles.run(name, piece, isa=isa, dtype=dtype)
        assert tiles.same_bits(result, whole[start : start + length]).all(), (start, length)
    if whole.dtype == operands[-1].dtype:
        for position, operand in enumerate(operands):
            if operand.dtype == whole.dtype:
                inputs = [o.copy() for o in operands]
                tiles.run(name, inputs, isa=isa, dtype=dtype, out=inputs[position])
                assert tiles.same_bits(inputs[position], whole).all(), f"in place of {position}"


@pytest.mark.parametrize("target", tiles.DTYPE_NAMES)
@pytest.mark.parametrize("source", tiles.DTYPE_NAMES)
def test_casts_agree(source: str, target: str) -> None:
    x = values(source, 7)
    isas = tiles.isas_here()
    reference = tiles.cast(x, source, target, isa=isas[0])
    for isa in isas[1:]:
        result = tiles.cast(x, source, target, isa=isa)
        same = tiles.same_bits(reference, result)
        if target == "bfloat16":
            same |= ((reference & 0x7FFF) > 0x7F80) & ((result & 0x7FFF) > 0x7F80)
        assert same.all(), (isa, x[~same][:5], reference[~same][:5], result[~same][:5])


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_moves(size: int) -> None:
    lib = tiles.library()
    rng = np.random.default_rng(size)
    source = np.frombuffer(rng.bytes(size * 300), f"V{size}").copy()
    count, stride = ctypes.c_int64(100), ctypes.c_int64(3 * size)
    for isa in range(len(tiles.isas_here())):
        gathered = np.zeros(100, source.dtype)
        lib.run_gather(isa, size, count, tiles.pointer(gathered), tiles.pointer(source), stride)
        assert gathered.tobytes() == source[::3].tobytes()
        scattered = np.zeros(300, source.dtype)
        lib.run_scatter(isa, size, count, tiles.pointer(scattered), stride, tiles.pointer(gathered))
        assert scattered[::3].tobytes() == gathered.tobytes()
        assert not any(scattered[1::3].tobytes())
        filled = np.zeros(100, source.dtype)
        lib.run_fill(isa, size, count, tiles.pointer(filled), tiles.pointer(source))
        assert filled.tobytes() == source[:1].tobytes() * 100

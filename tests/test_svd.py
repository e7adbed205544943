"""Singular values: what defines a decomposition, its derivatives, its bits, its errors."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys
from typing import Any

import pytest

from ._target import weft, weft_only

SHAPES = [
    (1, 1),
    (3, 3),
    (5, 2),
    (2, 5),
    (1, 6),
    (6, 1),
    (2, 4, 3),
    (2, 1, 3, 4),
    (40, 40),
    (70, 20),
]


def matrices(shape: tuple[int, ...], dtype: Any = None, seed: int = 0) -> Any:
    source = weft.Generator().manual_seed(seed)
    return weft.randn(shape, dtype=dtype or weft.float64, generator=source)


def assert_decomposes(A: Any, full: bool, tolerance: float) -> None:
    U, S, Vh = weft.linalg.svd(A, full_matrices=full)
    rows, columns = A.shape[-2:]
    k = min(rows, columns)
    assert U.shape[-2:] == (rows, rows if full else k)
    assert Vh.shape[-2:] == (columns if full else k, columns)
    assert S.shape == (*A.shape[:-2], k)
    size = max(float(A.abs().max()), 1e-300)
    again = (U[..., :k] * S.unsqueeze(-2)) @ Vh[..., :k, :]
    assert float((again - A).abs().max()) <= tolerance * size
    for vectors in (U.mT @ U, Vh @ Vh.mT):
        one = weft.eye(vectors.shape[-1], dtype=A.dtype)
        assert float((vectors - one).abs().max()) <= tolerance
    assert bool((S >= 0).all())
    assert bool((S.diff() <= 0).all())
    assert weft.allclose(weft.linalg.svdvals(A), S, rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_decomposition(shape: tuple[int, ...], full: bool) -> None:
    assert_decomposes(matrices(shape), full, 1e-13)
    assert_decomposes(matrices(shape, weft.float32), full, 1e-5)


@pytest.mark.parametrize(
    "A",
    [
        lambda: matrices((6, 2)) @ matrices((2, 5)),
        lambda: weft.zeros(4, 3, dtype=weft.float64),
        lambda: weft.eye(4, dtype=weft.float64),
        lambda: weft.ones(5, 5, dtype=weft.float64),
        lambda: matrices((4, 4)) * 1e300,
        lambda: matrices((4, 4)) * 1e-300,
        lambda: weft.tensor([1.0, 1e-20, 1e-40, 0.0], dtype=weft.float64).diag(),
        lambda: matrices((8, 6)).mT,
    ],
    ids=["rank 2", "zeros", "identity", "ones", "huge", "tiny", "graded", "transposed"],
)
def test_difficult_matrices(A: Any) -> None:
    for full in (False, True):
        assert_decomposes(A(), full, 1e-13)


def test_known_values() -> None:
    A = weft.tensor([[3.0, 0.0], [4.0, 5.0]], dtype=weft.float64)
    expected = [45**0.5, 5**0.5]
    assert weft.linalg.svdvals(A).tolist() == pytest.approx(expected, rel=1e-15)
    assert weft.norm(A, "nuc").item() == pytest.approx(sum(expected), rel=1e-15)


def test_without_elements() -> None:
    U, S, Vh = weft.linalg.svd(weft.ones(0, 3))
    assert (U.shape, S.shape, Vh.tolist()) == ((0, 0), (0,), weft.eye(3).tolist())
    assert weft.linalg.svdvals(weft.ones(2, 0, 3)).shape == (2, 0)
    assert weft.norm(weft.ones(0, 3), "nuc").item() == 0


def test_second_form() -> None:
    A = matrices((4, 3))
    U, S, V = weft.svd(A)
    assert weft.allclose((U * S) @ V.mT, A)
    assert weft.svd(A, some=False).U.shape == (4, 4)
    zeros, values, _ = weft.svd(A, compute_uv=False)
    assert not zeros.any()
    assert weft.allclose(values, S)


# What does not depend on the signs of the vectors, nor on the basis of what completes them.
def even(A: Any, full: bool = False) -> tuple[Any, ...]:
    U, S, Vh = weft.linalg.svd(A, full_matrices=full)
    k = S.shape[-1]
    return U[..., :k].square(), S, Vh[..., :k, :].abs()


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)], ids=str)
def test_derivatives(shape: tuple[int, ...], full: bool) -> None:
    A = matrices(shape).requires_grad_()
    assert weft.autograd.gradcheck(lambda A: even(A, full), (A,))
    assert weft.autograd.gradgradcheck(lambda A: even(A, full), (A,))
    assert weft.autograd.gradgradcheck(weft.linalg.svdvals, (A,))


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)], ids=str)
def test_derivatives_of_the_nuclear_norm(shape: tuple[int, ...]) -> None:
    A = matrices(shape).requires_grad_()

    def norm(A: Any) -> Any:
        return weft.norm(A, "nuc", dim=(0, -1))

    assert weft.autograd.gradcheck(norm, (A,))
    assert weft.autograd.gradgradcheck(norm, (A,))


def test_nuclear_norm_where_singular_values_are_equal() -> None:
    """Its second derivative divides by sums of them only: (G - G^T) / 2 at the identity."""
    A = weft.eye(3, dtype=weft.float64).requires_grad_()
    (first,) = weft.autograd.grad(weft.norm(A, "nuc"), A, create_graph=True)
    assert weft.allclose(first, weft.eye(3, dtype=weft.float64))
    G = matrices((3, 3))
    (second,) = weft.autograd.grad((first * G).sum(), A)
    assert weft.allclose(second, (G - G.mT) / 2)


def test_nuclear_norm_along_dimensions() -> None:
    A = matrices((2, 3, 4))
    expected = [sum(weft.linalg.svdvals(A[:, i]).tolist()) for i in range(3)]
    assert weft.norm(A, "nuc", dim=(0, 2)).tolist() == pytest.approx(expected)
    assert weft.norm(A, "nuc", dim=(2, 0), keepdim=True).shape == (1, 3, 1)


PRINT_BITS = """
import hashlib, weft
weft.set_num_threads(int(__import__("sys").argv[1]))
source = weft.Generator().manual_seed(5)
digest = hashlib.sha256()
for shape in [(150, 120), (20, 9, 7), (30, 80)]:
    for dtype in (weft.float32, weft.float64):
        A = weft.randn(shape, dtype=dtype, generator=source)
        for part in weft.linalg.svd(A, full_matrices=False):
            digest.update(part.contiguous().numpy().tobytes())
print(digest.hexdigest())
"""


@weft_only
def test_same_bits_for_any_threads_and_instruction_set() -> None:
    hashes = set()
    for threads, isa in [("1", "avx512"), ("2", "avx512"), ("1", "avx2"), ("2", "baseline")]:
        environment = {**os.environ, "WEFT_CPU": isa}
        command = [sys.executable, "-c", PRINT_BITS, threads]
        hashes.add(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
    assert len(hashes) == 1
    assert len(hashes.pop().strip()) == 2 * hashlib.sha256().digest_size


def test_errors() -> None:
    A = weft.ones(2, 2)
    for call, kind, text in [
        (lambda: weft.linalg.svd(weft.ones(3)), RuntimeError, "at least 2 dimensions"),
        (lambda: weft.svd(weft.ones(3)), RuntimeError, "has 1 dimensions instead"),
        (lambda: weft.linalg.svd(A.long()), RuntimeError, "Expected a floating point .* Got Long"),
        (lambda: weft.linalg.svd(A.half()), NotImplementedError, "not implemented for 'Half'"),
        (lambda: weft.linalg.svd(A, driver="gesvd"), RuntimeError, "only supported on CUDA"),
        (lambda: weft.linalg.svd(A * float("nan")), RuntimeError, "non-finite values"),
        (lambda: weft.norm(A, "nuc", dim=0), RuntimeError, "dim must be a 2-tuple. Got 0"),
        (lambda: weft.norm(A, "nuc", dim=(0, 0)), RuntimeError, "dims must be different"),
        (lambda: weft.norm(A, "nuc", dim=(0, 5)), IndexError, "Dimension out of range"),
        (lambda: weft.norm(A.half(), "nuc"), RuntimeError, "Low precision dtypes not supported"),
        (lambda: weft.norm(weft.ones(3), "nuc"), RuntimeError, "at least 2 dimensions"),
    ]:
        with pytest.raises(kind, match=text):
            call()


def test_out() -> None:
    A = matrices((3, 2))
    out = tuple(weft.empty(0, dtype=A.dtype) for _ in range(3))
    weft.linalg.svd(A, out=out)
    for written, expected in itertools.zip_longest(out, weft.linalg.svd(A)):
        assert written.tolist() == expected.tolist()

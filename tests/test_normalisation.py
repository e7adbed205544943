"""Normalisation: derivatives of every order, closed forms, running statistics, the same bits."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ._target import weft, weft_only

F = weft.nn.functional
ROOT = Path(__file__).resolve().parents[1]


def leaf(*shape: int, seed: int = 0) -> Any:
    generator = weft.Generator().manual_seed(seed + sum(shape))
    return weft.randn(*shape, generator=generator, dtype=weft.float64).requires_grad_()


def running(count: int) -> tuple[Any, Any]:
    return leaf(count, seed=5).detach(), leaf(count, seed=6).detach() ** 2 + 0.5


def of_batch(x: Any, weight: Any, bias: Any) -> Any:
    return F.batch_norm(x, None, None, weight, bias, True)


FUNCTIONS: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
    "layer": (lambda x, w, b: F.layer_norm(x, (3,), w, b), [(2, 4, 3), (3,), (3,)]),
    "layer, two dims": (lambda x, w, b: F.layer_norm(x, (4, 3), w, b), [(2, 4, 3), (4, 3), (4, 3)]),
    "layer, plain": (lambda x: F.layer_norm(x, (3,)), [(4, 3)]),
    "layer, bias": (lambda x, b: F.layer_norm(x, (3,), None, b), [(4, 3), (3,)]),
    "rms": (lambda x, w: F.rms_norm(x, (3,), w, 1e-3), [(4, 3), (3,)]),
    "group": (lambda x, w, b: F.group_norm(x, 2, w, b), [(2, 4, 3), (4,), (4,)]),
    "group of channels": (lambda x, w, b: F.group_norm(x, 2, w, b), [(3, 6), (6,), (6,)]),
    "instance": (lambda x, w, b: F.instance_norm(x, None, None, w, b), [(2, 3, 4), (3,), (3,)]),
    "batch": (of_batch, [(4, 2, 3), (2,), (2,)]),
    "batch, columns": (of_batch, [(5, 3), (3,), (3,)]),
    "batch, plain": (lambda x: F.batch_norm(x, None, None, training=True), [(4, 2, 3)]),
    "batch, evaluation": (
        lambda x, w, b: F.batch_norm(x, *running(2), w, b, False),
        [(4, 2, 3), (2,), (2,)],
    ),
    "response": (lambda x: F.local_response_norm(x, 3, 0.5), [(2, 4, 3)]),
}  # fmt: skip


def of(name: str) -> tuple[Any, tuple[Any, ...]]:
    function, shapes = FUNCTIONS[name]
    return function, tuple(leaf(*shape, seed=i) for i, shape in enumerate(shapes))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name: str) -> None:
    function, inputs = of(name)
    assert weft.autograd.gradcheck(function, inputs)
    assert weft.autograd.gradgradcheck(function, inputs)


@weft_only  # PyTorch's third derivative of batch norm is wrong
@pytest.mark.parametrize("name", ["layer", "rms", "group", "batch", "batch, evaluation"])
def test_third_derivative(name: str) -> None:
    function, inputs = of(name)

    def first(*values: Any) -> Any:
        y = function(*values)
        return weft.autograd.grad((y**3).sum(), values, create_graph=True)

    assert weft.autograd.gradgradcheck(first, inputs)


def test_closed_form() -> None:
    x = weft.tensor([[1.0, 3.0], [2.0, 2.0]], dtype=weft.float64)
    scale = 1 / math.sqrt(1 + 1e-5)
    assert F.layer_norm(x, (2,)).tolist() == [[-scale, scale], [0.0, 0.0]]
    rms = 1 / math.sqrt(5 + 1e-5)
    assert F.rms_norm(x, (2,), eps=1e-5)[0].tolist() == pytest.approx([rms, 3 * rms])
    scale = 1 / math.sqrt(0.25 + 1e-5)
    expected = [[-0.5 * scale, 0.5 * scale], [0.5 * scale, -0.5 * scale]]
    for got, row in zip(F.batch_norm(x, None, None, training=True).tolist(), expected, strict=True):
        assert got == pytest.approx(row)


def test_large_mean_does_not_cancel() -> None:
    x = leaf(3, 5000).detach().float()
    for function in (
        lambda t: F.layer_norm(t, (5000,)),
        lambda t: F.batch_norm(t.T, None, None, training=True).T,
        lambda t: F.group_norm(t.reshape(3, 5, 1000), 1).reshape(3, 5000),
    ):
        moved = function(x + 4096)
        exact = function((x + 4096).double())
        # float32 knows the mean to 0.0005; a difference of large squares would know nothing.
        assert (moved - exact).abs().max().item() < 2e-3


def test_running_statistics() -> None:
    norm = weft.nn.BatchNorm1d(1, momentum=0.25)
    norm(weft.tensor([[1.0], [3.0]]))
    assert norm.running_mean.tolist() == [0.5]  # a quarter of 2
    assert norm.running_var.tolist() == [1.25]  # three quarters of 1 and one of 2
    assert norm.num_batches_tracked.item() == 1
    norm.eval()(weft.tensor([[100.0], [3.0]]))
    assert norm.running_mean.tolist() == [0.5]

    average = weft.nn.BatchNorm1d(1, momentum=None)
    for mean in (1.0, 2.0, 6.0):
        average(weft.tensor([[mean - 1], [mean + 1]]))
    assert average.running_mean.item() == pytest.approx(3.0)


@weft_only
def test_running_statistics_count_as_written() -> None:
    mean, var = weft.zeros(2), weft.ones(2)
    before = mean._version
    F.batch_norm(weft.ones(3, 2), mean, var, training=True)
    assert mean._version == before + 1
    assert mean.tolist() == pytest.approx([0.1, 0.1])


def test_evaluation_without_statistics_uses_the_batch() -> None:
    norm = weft.nn.BatchNorm1d(2, track_running_stats=False, affine=False).eval()
    assert norm.state_dict() == {}
    assert norm(leaf(50, 2).detach().float()).mean().abs().item() < 1e-6


def test_a_module_in_two_dtypes() -> None:
    norm = weft.nn.LayerNorm(4).to(weft.bfloat16)
    assert norm(weft.ones(2, 4, dtype=weft.bfloat16)).dtype == weft.bfloat16
    assert norm(weft.arange(8.0).reshape(2, 4).bfloat16()).float().std().item() > 0.5


BITS = """
import hashlib, sys, weft
from weft.nn import functional as F
weft.manual_seed(0)
result = hashlib.sha256()
def add(y, *inputs):
    for t in (y, *weft.autograd.grad((y * y).sum(), inputs)):
        result.update(t.detach().numpy().tobytes())
for threads in THREADS:
    weft.set_num_threads(threads)
    weft.manual_seed(0)
    w, b = (weft.randn(70, requires_grad=True) for _ in "wb")
    x = weft.randn(5000, 70, requires_grad=True)
    add(F.layer_norm(x, (70,), w, b), x, w, b)
    add(F.rms_norm(x, (70,), w), x, w)
    add(F.batch_norm(x, None, None, w, b, True), x, w, b)
    add(F.layer_norm(x.T, (5000,)), x)
    image = weft.randn(9, 70, 13, 11, requires_grad=True)
    add(F.batch_norm(image, None, None, w, b, True), image, w, b)
    add(F.group_norm(image, 7, w, b), image, w, b)
    last = image.contiguous(memory_format=weft.channels_last)
    add(F.batch_norm(last, None, None, w, b, True), image, w, b)
    print(result.hexdigest())
    result = hashlib.sha256()
"""


@weft_only
def test_same_bits_for_any_threads_and_instruction_set() -> None:
    hashes = set()
    for build, threads in (("baseline", "(2,)"), ("avx2", "(3,)"), ("avx512", "(1, 2, 5)")):
        environment = {**os.environ, "WEFT_CPU": build}
        code = BITS.replace("THREADS", threads)
        run = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        hashes.update(run.stdout.split())
    assert len(hashes) == 1
    assert hashes != {hashlib.sha256().hexdigest()}

"""Convolutions and pooling against their definitions, and what only weft promises of them."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ._target import weft, weft_only

F = weft.nn.functional
ROOT = Path(__file__).resolve().parents[1]


def integers(source: random.Random, *sizes: int, dtype: Any = None) -> Any:
    """Small whole numbers: sums of their products are exact in every dtype and order."""
    count = 1
    for size in sizes:
        count *= size
    values = [float(source.randint(-4, 4)) for _ in range(count)]
    return weft.tensor(values, dtype=dtype or weft.float32).reshape(sizes)


def convolved(
    x: Any, weight: Any, stride: int, padding: int, dilation: int, groups: int
) -> list[Any]:
    """The definition, number by number."""
    images, filters = x.tolist(), weight.tolist()
    height, width = x.shape[2:]
    out_channels, per_group, rows, columns = weight.shape

    def length(size: int, kernel: int) -> int:
        return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1

    def one(image: Any, o: int, y: int, z: int) -> float:
        first = o // (out_channels // groups) * per_group
        total = 0.0
        for c, i, j in itertools.product(range(per_group), range(rows), range(columns)):
            row, column = y * stride + i * dilation - padding, z * stride + j * dilation - padding
            if 0 <= row < height and 0 <= column < width:
                total += image[first + c][row][column] * filters[o][c][i][j]
        return total

    return [
        [
            [
                [one(image, o, y, z) for z in range(length(width, columns))]
                for y in range(length(height, rows))
            ]
            for o in range(out_channels)
        ]
        for image in images
    ]


GEOMETRIES = [  # batch, channels, filters, height, width, kernel, stride, padding, dilation, groups
    (1, 1, 1, 3, 3, 2, 1, 0, 1, 1),
    (2, 3, 4, 7, 6, 3, 2, 1, 1, 1),
    (3, 4, 6, 8, 9, 3, 1, 2, 2, 2),
    (2, 32, 16, 11, 10, 3, 1, 1, 1, 1),
    (1, 16, 16, 9, 9, 3, 1, 1, 1, 16),
    (9, 3, 16, 12, 12, 5, 1, 0, 1, 1),
    (2, 8, 32, 6, 6, 1, 1, 0, 1, 1),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16", "bfloat16"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_convolution_is_what_it_is_defined_to_be(geometry: tuple[int, ...], dtype: str) -> None:
    batch, channels, filters, height, width, kernel, stride, padding, dilation, groups = geometry
    source = random.Random(1)
    x = integers(source, batch, channels, height, width)
    weight = integers(source, filters, channels // groups, kernel, kernel)
    if dtype.endswith("16"):  # small enough for 8 bits of precision
        x, weight = x.clamp(0, 1), weight.clamp(0, 1) * (weight > 3)
    expected = convolved(x, weight, stride, padding, dilation, groups)
    kind = getattr(weft, dtype)
    actual = F.conv2d(x.to(kind), weight.to(kind), None, stride, padding, dilation, groups)
    assert actual.dtype == kind
    assert actual.tolist() == expected


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_gradients_are_adjoint(geometry: tuple[int, ...]) -> None:
    """<conv(x, w), g> = <x, dx(g, w)> = <w, dw(x, g)>, exactly on whole numbers."""
    batch, channels, filters, height, width, kernel, stride, padding, dilation, groups = geometry
    source = random.Random(2)
    for dtype in (weft.float32, weft.float64):
        x = integers(source, batch, channels, height, width, dtype=dtype).requires_grad_()
        weight = integers(source, filters, channels // groups, kernel, kernel, dtype=dtype)
        weight.requires_grad_()
        result = F.conv2d(x, weight, None, stride, padding, dilation, groups)
        g = integers(source, *result.shape, dtype=dtype)
        total = float((result * g).sum())
        of_x, of_weight = weft.autograd.grad(result, (x, weight), g)
        assert float((of_x * x).sum()) == total
        assert float((of_weight * weight).sum()) == total
        transposed = F.conv_transpose2d(
            g, weight, None, stride, padding, _left_over(geometry), groups, dilation
        )
        assert (transposed == of_x).all()


def _left_over(geometry: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns that no window reached."""
    _, _, _, height, width, kernel, stride, padding, dilation, _ = geometry
    rows, columns = (
        (size + 2 * padding - dilation * (kernel - 1) - 1) % stride for size in (height, width)
    )
    return rows, columns


def test_an_image_that_is_cut_into_rows_is_the_same() -> None:
    source = random.Random(3)
    x = integers(source, 1, 16, 97, 41)
    weight = integers(source, 32, 16, 3, 3)
    for stride, padding in ((1, 1), (2, 0), (3, 2)):
        single = F.conv2d(x, weight, None, stride, padding)
        double = F.conv2d(x.double(), weight.double(), None, stride, padding)
        assert (single == double).all()


def test_a_bias_is_added_to_every_position() -> None:
    x, weight, bias = weft.zeros(2, 3, 5, 5), weft.zeros(4, 3, 3, 3), weft.arange(4.0)
    assert (F.conv2d(x, weight, bias) == bias.reshape(1, 4, 1, 1)).all()
    assert (F.conv_transpose2d(x, weight.transpose(0, 1), bias) == bias.reshape(1, 4, 1, 1)).all()
    empty = F.conv2d(weft.zeros(2, 0, 5, 5), weft.zeros(4, 0, 3, 3), bias)
    assert (empty == bias.reshape(1, 4, 1, 1)).all()


def test_gradients_of_nothing_are_zero() -> None:
    weight = weft.ones(4, 3, 3, 3).requires_grad_()
    bias = weft.ones(4).requires_grad_()
    F.conv2d(weft.zeros(0, 3, 5, 5), weight, bias).sum().backward()
    assert not weight.grad.any() and not bias.grad.any()


def test_many_products_may_be_differentiated_again() -> None:
    source = random.Random(4)
    x = integers(source, 1, 2, 4, 4, dtype=weft.float64).requires_grad_()
    weight = integers(source, 2, 2, 2, 2, dtype=weft.float64).requires_grad_()
    bias = integers(source, 2, dtype=weft.float64).requires_grad_()

    def cube(x: Any, weight: Any, bias: Any) -> Any:
        return F.conv2d(x, weight, bias, padding=1).pow(3)

    assert weft.autograd.gradcheck(cube, (x, weight, bias))
    assert weft.autograd.gradgradcheck(cube, (x, weight, bias))


# ---- the same bits ------------------------------------------------------------------------------

# Run in a process of its own, as the environment chooses the library.
DIGESTS = """
import hashlib, json, sys
import weft
F = weft.nn.functional

def digest(*tensors):
    return [hashlib.sha256(t.detach().contiguous().numpy().tobytes()).hexdigest() for t in tensors]

def results(threads):
    weft.set_num_threads(threads)
    weft.manual_seed(0)
    found = {}
    for dtype in (weft.float32, weft.float64):
        for n, c, h, o, k, s, g in ((17, 3, 28, 16, 3, 1, 1), (1, 16, 90, 32, 3, 2, 1),
                                    (6, 24, 19, 24, 3, 1, 24), (5, 32, 13, 64, 1, 1, 2)):
            x = weft.randn(n, c, h, h, dtype=dtype).requires_grad_()
            w = weft.randn(o, c // g, k, k, dtype=dtype).requires_grad_()
            b = weft.randn(o, dtype=dtype).requires_grad_()
            y = F.conv2d(x, w, b, s, 1, 1, g)
            y.square().sum().backward()
            p, indices = F.max_pool2d(y, 3, 2, 1, return_indices=True)
            a = F.avg_pool2d(y, 3, 2, 1)
            i = F.interpolate(y, scale_factor=1.5, mode="bilinear")
            u = F.fold(F.unfold(y, 2, stride=2), y.shape[2:], 2, stride=2)
            found[f"{dtype} {n} {c} {o}"] = digest(y, x.grad, w.grad, b.grad, p, indices, a, i, u)
    return found

first = results(1)
for threads in (2, 3, 4, 8):
    assert results(threads) == first, f"{threads} threads give other bits"
print(json.dumps(first))
"""


def run_digests(**environment: str) -> dict[str, list[str]]:
    ran = subprocess.run(
        [sys.executable, "-c", DIGESTS],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    digests: dict[str, list[str]] = json.loads(ran.stdout)
    return digests


@weft_only
def test_same_bits_for_any_number_of_threads() -> None:
    assert run_digests()


@weft_only
def test_same_bits_for_any_number_of_threads_without_libraries() -> None:
    assert run_digests(WEFT_GEMM="portable")


@weft_only
def test_portable_convolutions_agree_with_the_library() -> None:
    source = random.Random(5)
    for geometry in GEOMETRIES:
        batch, channels, filters, height, width, kernel, stride, padding, dilation, groups = (
            geometry
        )
        x = integers(source, batch, channels, height, width).requires_grad_()
        weight = integers(source, filters, channels // groups, kernel, kernel).requires_grad_()
        bias = integers(source, filters).requires_grad_()
        result = F.conv2d(x, weight, bias, stride, padding, dilation, groups)
        g = integers(source, *result.shape)
        single = [result, *weft.autograd.grad(result, (x, weight, bias), g)]
        wide = [t.detach().double().requires_grad_() for t in (x, weight, bias)]
        result = F.conv2d(*wide, stride, padding, dilation, groups)
        double = [result, *weft.autograd.grad(result, wide, g.double())]
        for a, b in zip(single, double, strict=True):
            assert (a == b).all()


# ---- memory formats -----------------------------------------------------------------------------


def test_layout_of_the_result() -> None:
    x, weight = weft.randn(2, 3, 6, 6), weft.randn(4, 3, 3, 3)
    assert F.conv2d(x, weight).is_contiguous()
    last = x.contiguous(memory_format=weft.channels_last)
    for result in (F.conv2d(last, weight), F.max_pool2d(last, 2), F.avg_pool2d(last, 2)):
        assert result.is_contiguous(memory_format=weft.channels_last)
        assert not result.is_contiguous()
    assert F.conv2d(x, weight).flatten(1).shape == F.conv2d(x, weight).view(2, -1).shape


@pytest.mark.parametrize("pool", ["max_pool2d", "avg_pool2d"])
def test_pooling_does_not_depend_on_the_layout(pool: str) -> None:
    x = integers(random.Random(6), 2, 5, 9, 7)
    last = x.contiguous(memory_format=weft.channels_last)
    function = getattr(F, pool)
    for options in (
        (2,),
        (3, 2, 1),
        (3, 1, 1, 1, True) if pool == "max_pool2d" else (3, 1, 1, True),
    ):
        assert (function(x, *options) == function(last, *options)).all()


@pytest.mark.parametrize("width", [4, 100])  # short and long lines take different ways
def test_the_first_of_equal_elements_gets_the_gradient(width: int) -> None:
    x = weft.zeros(1, 2, 4, width, requires_grad=True)
    F.max_pool2d(x, 2).sum().backward()
    expected = weft.zeros(1, 2, 4, width)
    expected[:, :, ::2, ::2] = 1.0
    assert (x.grad == expected).all()
    last = weft.zeros(1, 2, 4, width).contiguous(memory_format=weft.channels_last).requires_grad_()
    F.max_pool2d(last, 2).sum().backward()
    assert (last.grad == expected).all()


# ---- wrong arguments ----------------------------------------------------------------------------

HUGE = (2**62, -(2**62), 2**63 - 1, -(2**63))


@pytest.mark.parametrize("number", HUGE)
def test_numbers_no_image_can_have_are_refused(number: int) -> None:
    x, weight = weft.randn(1, 2, 5, 5), weft.randn(2, 2, 3, 3)
    calls: list[Callable[[], Any]] = [
        lambda: F.conv2d(x, weight, stride=number),
        lambda: F.conv2d(x, weight, padding=number),
        lambda: F.conv2d(x, weight, dilation=number),
        lambda: F.conv2d(x, weight, groups=number),
        lambda: F.conv2d(x, weight, padding="same", dilation=number),
        lambda: F.conv_transpose2d(x, weight, stride=number),
        lambda: F.conv_transpose2d(x, weight, padding=number),
        lambda: F.conv_transpose2d(x, weight, output_padding=number),
        lambda: F.conv_transpose2d(x, weight, dilation=number),
        lambda: F.max_pool2d(x, number),
        lambda: F.max_pool2d(x, 2, number),
        lambda: F.max_pool2d(x, 2, 1, number),
        lambda: F.max_pool2d(x, 2, 1, 0, number),
        lambda: F.avg_pool2d(x, number),
        lambda: F.adaptive_avg_pool2d(x, number),
        lambda: F.adaptive_max_pool2d(x, number),
        lambda: F.interpolate(x, number),
        lambda: F.interpolate(x, number, mode="bilinear"),
        lambda: F.unfold(x, number),
        lambda: F.unfold(x, 2, number),
        lambda: F.unfold(x, 2, 1, number),
        lambda: F.unfold(x, 2, 1, 0, number),
        lambda: F.fold(weft.randn(1, 8, 9), number, 2),
        lambda: F.max_unpool2d(
            x, weft.zeros(1, 2, 5, 5, dtype=weft.int64), 2, output_size=[number] * 2
        ),
    ]
    for i, call in enumerate(calls):
        with pytest.raises((RuntimeError, ValueError, MemoryError, OverflowError)):
            call()
            pytest.fail(f"call {i} was accepted")


def test_indices_out_of_range_are_refused_before_anything_is_written() -> None:
    x = weft.ones(1, 1, 2, 2)
    for bad in (-1, 16, 2**40):
        with pytest.raises(RuntimeError, match="Found an invalid max index"):
            F.max_unpool2d(x, weft.full((1, 1, 2, 2), bad), 2)

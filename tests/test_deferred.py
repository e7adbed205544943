"""The deferred trial: recorded now, computed later, with the same bits.

See docs/decisions/002-deferred-trial.md.
"""

from __future__ import annotations

import gc
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ._target import weft

core = pytest.importorskip("weft._core")


@contextmanager
def deferred() -> Iterator[None]:
    core._set_deferred(True)
    try:
        yield
    finally:
        core._set_deferred(False)


def bits(tensors: list[Any]) -> list[Any]:
    return [
        None if t is None else (t.dtype, t.shape, t.detach().reshape(-1).tolist()) for t in tensors
    ]


UNARY: list[Callable[[Any], Any]] = [
    lambda t: t.tanh(),
    lambda t: t.exp() * 0.1,
    lambda t: -t,
    lambda t: (t * t + 1).sqrt(),
    lambda t: t.sum(dim=0, keepdim=True) + t,
    lambda t: t.transpose(0, 1).contiguous().view(t.shape),
    lambda t: t[:, 1:].sum() + t,
    lambda t: t.reshape(-1).view(t.shape),
    lambda t: weft.where(t > 0, t, t * 0.5),
    lambda t: t.detach() * t,
]
BINARY: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: a - b * 0.3,
    lambda a, b: a / (b * b + 1),
    lambda a, b: (a @ b) * 0.1,
]


def run(seed: int) -> list[Any]:
    """A random program over 4x4 matrices: values, in-place writes, then a backward pass."""
    rng = random.Random(seed)
    weft.manual_seed(seed)
    leaves = [weft.randn(4, 4).requires_grad_() for _ in range(2)]
    constant = weft.randn(4, 4)
    pool = [*leaves, constant]
    for _ in range(rng.randint(3, 12)):
        if rng.random() < 0.5:
            pool.append(rng.choice(UNARY)(rng.choice(pool)))
        else:
            pool.append(rng.choice(BINARY)(rng.choice(pool), rng.choice(pool)))
        if rng.random() < 0.2:  # a write into memory that recorded work may still read
            with weft.no_grad():
                buffer = constant * 2
                pool.append(buffer + 1)
                buffer.mul_(rng.random())
                pool.append(buffer.detach())
        if rng.random() < 0.1:  # a value read in the middle
            pool.append(pool[-1] * float(pool[-1].sum().item() > 0))
    loss = sum(t.sum() for t in pool[3:]) if len(pool) > 3 else leaves[0].sum()
    if loss.requires_grad:
        loss.backward()
    return [*pool, loss, *(leaf.grad for leaf in leaves)]


@pytest.mark.parametrize("seed", range(120))
def test_later_gives_the_same_bits_as_at_once(seed: int) -> None:
    now = run(seed)
    with deferred():
        later = run(seed)
    assert bits(now) == bits(later)


def test_nothing_runs_before_a_value_is_asked_for() -> None:
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    with deferred():
        y = (x * 3).tanh()
        z = y.sum()
        assert core._is_pending(y)
        assert core._is_pending(z)
        assert z.shape == ()
        assert z.dtype == weft.float32
        z.backward()
        assert core._is_pending(x.grad)
    expected = [3 * (1 - math.tanh(3 * v) ** 2) for v in (1.0, 2.0)]
    assert x.grad.tolist() == pytest.approx(expected, rel=1e-2)
    assert not core._is_pending(x.grad)


def test_mistakes_are_still_reported_at_the_line() -> None:
    with deferred(), pytest.raises(RuntimeError, match="must match the size"):
        weft.ones(2) + weft.ones(3)


def test_a_write_runs_what_still_reads() -> None:
    a = weft.ones(3)
    with deferred():
        b = a + 1
        a.mul_(10)
    assert b.tolist() == [2.0, 2.0, 2.0]


def test_nothing_is_left_behind() -> None:
    gc.collect()
    before = core.live_counts()
    for seed in range(20):
        with deferred():
            run(seed)
    core._is_pending(weft.ones(1))
    gc.collect()
    with deferred():  # a write flushes what nobody asked for
        t = weft.ones(1)
        _ = t + 1
        t.add_(1)
    del t, _
    after = core.live_counts()
    assert after["tensors"] - before["tensors"] <= 2
    assert after["nodes"] - before["nodes"] <= 2


def test_a_long_chain_does_not_recurse() -> None:
    with deferred():
        x = weft.ones(1)
        for _ in range(100_000):
            x = x + 1
    assert x.item() == 100_001


def test_a_pending_tensor_becomes_a_parameter_or_a_copy() -> None:
    import copy

    from weft import nn

    with deferred():
        assert nn.Parameter(weft.ones(3) + 1).tolist() == [2.0, 2.0, 2.0]
        assert copy.deepcopy(weft.ones(3) + 1).tolist() == [2.0, 2.0, 2.0]

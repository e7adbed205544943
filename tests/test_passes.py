"""Backward passes that meet, that are broken off, or that are very long."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ._target import weft, weft_only


def leaf(*values: float) -> Any:
    return weft.tensor(list(values), dtype=weft.float64, requires_grad=True)


def scalar(value: float) -> Any:
    return weft.tensor(value, dtype=weft.float64, requires_grad=True)


def together(work: Callable[[], None], threads: int = 4) -> None:
    """Runs `work` on several threads at once and raises what any of them raised."""
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=guarded) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Python hands the lock over as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


# -- several threads ---------------------------------------------------------------------------


def test_shared_leaf_with_gradients_large_enough_to_release_the_lock() -> None:
    x = weft.ones(200_000, dtype=weft.float64, requires_grad=True)

    def work() -> None:
        for _ in range(10):
            (x * 2).sum().backward()

    together(work)
    assert x.grad.min().item() == x.grad.max().item() == 4 * 10 * 2


def test_shared_leaves_with_hooks(eager_switching: None) -> None:
    leaves = [leaf(1.0, 1.0) for _ in range(4)]
    for each in leaves:
        each.register_hook(lambda grad: grad + 0)

    def work() -> None:
        for _ in range(50):
            y = leaves[0]
            for each in leaves:
                y = y * each
            y.sum().backward()

    together(work)
    assert [each.grad.tolist() for each in leaves] == [[400.0] * 2] + [[200.0] * 2] * 3


def test_one_graph_with_hooks(eager_switching: None) -> None:
    x = leaf(0.1, 0.7)
    y = x
    for step in range(30):
        y = (y * 1.01).sin() + x
        if step % 3 == 0:
            y.register_hook(lambda grad: grad * 1.0)
    total = y.sum()
    (expected,) = weft.autograd.grad(total, x, retain_graph=True)

    def work() -> None:
        for _ in range(20):
            (found,) = weft.autograd.grad(total, x, retain_graph=True)
            assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-12)

    together(work)


@weft_only  # PyTorch's backward runs on threads of its own
def test_other_threads_run_during_a_long_backward() -> None:
    x = scalar(1.0)
    y = x
    for _ in range(5_000_000):  # many turns long on any machine
        y = y + 1.0
    moments: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            moments.append(time.perf_counter())
            time.sleep(0.001)

    ticking = threading.Thread(target=tick)
    ticking.start()
    time.sleep(0.01)
    start = time.perf_counter()
    y.backward()
    end = time.perf_counter()
    done.set()
    ticking.join()
    assert sum(start <= moment <= end for moment in moments) >= 2


# -- one pass inside another ---------------------------------------------------------------------


def test_a_pass_over_the_same_nodes_from_a_hook() -> None:
    x = scalar(0.5)
    shared = x.exp()
    left, right = shared * 2, shared * 3
    seen = []

    def hook(grad: Any) -> None:
        (inner,) = weft.autograd.grad(right, x, retain_graph=True)
        seen.append(inner.item())

    left.register_hook(hook)
    (left + right).backward(retain_graph=True)
    assert seen == pytest.approx([3 * math.exp(0.5)])
    assert x.grad.item() == pytest.approx(5 * math.exp(0.5))


def test_the_same_backward_from_its_own_hook() -> None:
    x = scalar(3.0)
    y = x * x
    calls = []

    def hook(grad: Any) -> None:
        calls.append(grad.item())
        if len(calls) < 3:
            y.backward(retain_graph=True)

    y.register_hook(hook)
    y.backward(retain_graph=True)
    assert calls == [1.0, 1.0, 1.0]
    assert x.grad.item() == 18.0


# -- passes that are broken off --------------------------------------------------------------------


def test_an_exception_leaves_no_gradients_behind() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    shared = y.exp()

    class Stop(Exception):
        pass

    def stop(grad: Any) -> None:
        raise Stop

    handle = y.register_hook(stop)
    for _ in range(3):
        with pytest.raises(Stop):
            (shared * 3 + shared * 4).sum().backward(retain_graph=True)
    assert x.grad is None
    handle.remove()
    (shared * 3 + shared * 4).sum().backward()
    assert x.grad.tolist() == pytest.approx([14 * math.exp(2), 14 * math.exp(4)])


@weft_only
def test_broken_off_passes_leak_nothing() -> None:
    class Stop(Exception):
        pass

    def stop(grads: Any) -> None:
        raise Stop

    def attempt() -> None:
        x = leaf(1.0, 2.0)
        y = x * 2
        z = y.exp()
        y.grad_fn.register_prehook(stop)
        with pytest.raises(Stop):
            (z * 3 + z * 4).sum().backward()

    attempt()
    before = weft._core.live_counts()
    for _ in range(20):
        attempt()
    assert weft._core.live_counts() == before


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals need the main thread"
)
def test_interrupting_a_long_backward() -> None:
    x = scalar(1.0)
    y = x
    for _ in range(1_000_000):
        y = y * 1.0
    timer = threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT))
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        y.backward()
        while time.perf_counter() < start + 2:  # in case backward was faster
            pass
    timer.join()
    del y
    (x * 3).backward()
    assert x.grad.item() in (3.0, 4.0)


# -- length ----------------------------------------------------------------------------------------


def test_deep_graphs_need_no_deep_stack() -> None:
    outcome = []

    def work() -> None:
        x = scalar(1.0)
        y = x
        for _ in range(200_000):
            y = y * 1.0
        (inner,) = weft.autograd.grad(y, x, retain_graph=True)
        y.backward()
        outcome.append((inner.item(), x.grad.item()))

    before = threading.stack_size(512 * 1024)
    try:
        worker = threading.Thread(target=work)
    finally:
        threading.stack_size(before)
    worker.start()
    worker.join()
    assert outcome == [(1.0, 1.0)]


def test_deep_chain_of_custom_functions_is_freed_without_recursion() -> None:
    class Same(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    x = scalar(1.0)
    y = x
    for _ in range(20_000):
        y = Same.apply(y)
    y.backward(retain_graph=True)
    assert x.grad.item() == 1.0
    del y

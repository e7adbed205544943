"""Memory: what is freed when, without the cycle collector; nothing grows from step to step."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import textwrap
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ._target import MODULE_NAME, weft, weft_only

STEPS = 3_000


@contextmanager
def no_collector() -> Iterator[None]:
    """What happens inside must come about by reference counts alone."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def assert_flat(step: Callable[[], Any], steps: int = STEPS, allowed: int = 2**20) -> None:
    """Resident memory after `steps` more steps is what it was, without the collector."""
    with no_collector():
        for _ in range(200):
            step()
        before = resident_bytes()
        for _ in range(steps):
            step()
        grown = resident_bytes() - before
    assert grown < allowed, f"{grown} bytes in {steps} steps"


def counts() -> dict[str, int]:
    found: dict[str, int] = weft._core.live_counts()
    return found


# -- when things go ---------------------------------------


def test_results_go_with_their_last_name() -> None:
    with no_collector():
        x = weft.ones(4, requires_grad=True)
        y = x * 2
        z = y.exp()
        watched = [weakref.ref(t) for t in (y, z)]
        del y, z
        assert [w() for w in watched] == [None, None]


def test_intermediates_that_nothing_needs_go_at_once() -> None:
    with no_collector():
        x = weft.ones(4, requires_grad=True)
        y = x + 1
        watch = weakref.ref(y)
        z = y + 2
        del y
        assert watch() is None
        z.sum().backward()


def test_attributes_of_freed_tensors_go_too() -> None:
    class Marker:
        pass

    with no_collector():
        x = weft.ones(2)
        x.marker = Marker()
        watch = weakref.ref(x.marker)
        del x
        assert watch() is None


def test_hooks_go_with_the_graph() -> None:
    class Hook:
        def __call__(self, grad: Any) -> None:
            pass

    with no_collector():
        x = weft.ones(2, requires_grad=True)
        y = x * 2
        hook = Hook()
        watch = weakref.ref(hook)
        y.register_hook(hook)
        del hook
        assert watch() is not None
        z = y.sum()
        del y
        z.backward()
        del z
        assert watch() is None


def test_contexts_of_custom_functions_go_with_the_graph() -> None:
    class Payload:
        pass

    watches = []

    class Keep(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.payload = Payload()
            watches.append(weakref.ref(ctx.payload))
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    with no_collector():
        y = Keep.apply(weft.ones(2, requires_grad=True))
        assert watches[0]() is not None
        del y
        assert watches[0]() is None


def test_no_tensor_object_is_left_behind() -> None:
    def tensors() -> int:
        return sum(issubclass(type(item), weft.Tensor) for item in gc.get_objects())

    def work() -> None:
        x = weft.ones(3, requires_grad=True)
        for _ in range(20):
            (x * x).tanh().sum().backward()

    work()
    gc.collect()
    before = tensors()
    work()
    assert tensors() <= before


@weft_only
def test_backward_frees_what_was_saved() -> None:
    x = weft.ones(1000, requires_grad=True)
    with no_collector():
        start = counts()
        y = x
        for _ in range(10):
            y = y.exp()
        loss = y.sum()
        built = counts()
        assert built["bytes"] >= start["bytes"] + 9 * 4000
        del y
        loss.backward()
        # The gradient is there, what was saved is not.
        assert counts()["bytes"] <= start["bytes"] + 4000 + 64
        del loss
        x.grad = None
        assert counts() == start


@weft_only
def test_retained_graphs_are_kept_until_let_go() -> None:
    x = weft.ones(1000, requires_grad=True)
    with no_collector():
        start = counts()
        loss = x.exp().exp().sum()
        loss.backward(retain_graph=True)
        kept = counts()
        assert kept["nodes"] > start["nodes"]
        del loss
        x.grad = None
        assert counts() == start


@weft_only
def test_a_loop_without_gradient_keeps_nothing() -> None:
    """An average, an environment's loop: no node, and no tensor but the last."""
    with no_collector():
        average = weft.zeros(100)
        start = counts()
        for step in range(500):
            average = average * 0.9 + weft.full((100,), float(step)) * 0.1
        assert counts()["nodes"] == start["nodes"]
        assert counts()["tensors"] == start["tensors"]
        state = weft.zeros(4)
        weights = weft.ones(4, 4, requires_grad=True)
        start = counts()
        for _ in range(500):
            with weft.no_grad():
                state = (state @ weights).tanh()
        assert counts()["nodes"] == start["nodes"]
        for _ in range(500):
            state = (state @ weights).tanh().detach()
        assert counts()["nodes"] == start["nodes"]


@weft_only
def test_views_do_not_count_storage_twice() -> None:
    with no_collector():
        x = weft.ones(1000)
        start = counts()
        views = [x[i:] for i in range(10)]
        assert counts()["storages"] == start["storages"]
        assert counts()["bytes"] == start["bytes"]
        del views
        assert counts() == start


@weft_only
def test_failed_calls_leave_nothing() -> None:
    x, y = weft.ones(3, requires_grad=True), weft.ones(4)
    with no_collector():
        start = counts()
        for _ in range(50):
            for call in (
                lambda: x + y,
                lambda: x @ y,
                lambda: weft.cat([x, y.reshape(2, 2)]),
                lambda: x[5],
                lambda: (x * 2).backward(),
                lambda: weft.tensor([1, "a"]),
                lambda: x.view(7),
                lambda: weft.zeros(2**60),
            ):
                with pytest.raises(Exception):  # noqa: B017
                    call()
        assert counts() == start


@weft_only
def test_an_exception_in_backward_leaves_nothing() -> None:
    x = weft.ones(3, requires_grad=True)

    def refuse(grad: Any) -> None:
        raise ArithmeticError

    def step() -> None:
        y = (x * 2).exp()
        middle = y * 3
        middle.register_hook(refuse)
        try:
            middle.exp().sum().backward()
        except ArithmeticError as error:
            error.__traceback__ = None

    step()
    with no_collector():
        start = counts()
        for _ in range(20):
            step()
        assert counts()["nodes"] <= start["nodes"]
        assert counts()["tensors"] <= start["tensors"]


# -- flat over many steps ---------------------------------------


@pytest.mark.native_only
def test_training_steps_are_flat() -> None:
    w = (weft.randn(16, 16) * 0.1).requires_grad_()
    x = weft.randn(4, 16)

    def step() -> None:
        loss = ((x @ w).tanh() @ w).pow(2).mean()
        loss.backward()
        with weft.no_grad():
            w.sub_(w.grad, alpha=0.01)
        w.grad = None

    assert_flat(step)


@pytest.mark.native_only
def test_create_graph_loops_are_flat() -> None:
    w = weft.ones(8, requires_grad=True)

    def step() -> None:
        (g,) = weft.autograd.grad((w**3).sum(), w, create_graph=True)
        (h,) = weft.autograd.grad((g * g).sum(), w)
        assert h is not None

    assert_flat(step)


@pytest.mark.native_only
def test_backward_with_create_graph_is_flat_when_grad_is_dropped() -> None:
    def step() -> None:
        w = weft.ones(8, requires_grad=True)
        loss = (w**3).sum()
        weft.autograd.backward(loss, create_graph=True)
        w.grad = None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_flat(step)


@pytest.mark.native_only
def test_views_hooks_and_functions_are_flat() -> None:
    class Double(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * 2
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x, y = ctx.saved_tensors
            return grad * 2 + 0 * (x + y)

    w = weft.ones(8, requires_grad=True)

    def step() -> None:
        y = w.clone()
        y[:4] *= 2
        y.register_hook(lambda grad: grad * 1)
        z = Double.apply(y.view(2, 4)).t()
        z.retain_grad()
        (z * z).sum().backward()
        w.grad = None

    assert_flat(step)


@pytest.mark.native_only
def test_exceptions_are_flat() -> None:
    x = weft.ones(3)

    def step() -> None:
        with suppress(RuntimeError):
            x @ weft.ones(4)

    assert_flat(step)


@pytest.mark.native_only
def test_conversions_are_flat() -> None:
    numbers = [float(i) for i in range(100)]

    def step() -> None:
        x = weft.tensor(numbers)
        x.tolist()
        repr(x)
        [float(item) for item in x]
        x.reshape(10, 10)[2:5, [1, 2]].sum().item()

    assert_flat(step, steps=500)


@pytest.mark.slow
@pytest.mark.native_only
def test_a_hundred_thousand_training_steps_are_flat() -> None:
    w = weft.ones(4, requires_grad=True)

    def step() -> None:
        (w.sin() * w).sum().backward()
        w.grad = None

    assert_flat(step, steps=100_000)


# -- depth ---------------------------------------


CHAIN = """\
import resource, sys
import {module} as weft
resource.setrlimit(resource.RLIMIT_STACK, (8 * 2**20, 8 * 2**20))
x = weft.tensor(1.0, requires_grad=True)
y = x
for _ in range({length}):
    y = y * 1.0000001
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / {length})
{end}
"""


@pytest.mark.slow
@pytest.mark.native_only
@pytest.mark.parametrize("end", ["y.backward(); print(x.grad.item())", "del y"])
def test_a_chain_of_five_million(end: str) -> None:
    """Built, differentiated and freed on an 8 MB stack."""
    if MODULE_NAME != "weft":
        pytest.skip("PyTorch needs gigabytes for it")
    program = CHAIN.format(module=MODULE_NAME, length=5_000_000, end=end)
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=170, check=False
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    assert float(finished.stdout.splitlines()[0]) < 400  # bytes per operation, tensor included


@pytest.mark.native_only
def test_deep_structures_on_a_small_stack() -> None:
    """No recursion in building, differentiating or freeing: 500 KB of stack are enough."""
    program = """
    import threading
    import MODULE as weft

    def work():
        x = weft.tensor([1.0], requires_grad=True)
        y = x
        for _ in range(100_000):
            y = (y + 0.0).view(1)
        y.sum().backward()
        z = x
        for _ in range(100_000):
            z = z * 1.0
        del z
        print("done", x.grad.item())

    threading.stack_size(500 * 1024)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    """
    if MODULE_NAME != "weft":
        pytest.skip("about weft's own stack")
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program).replace("MODULE", MODULE_NAME)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "done 1.0" in finished.stdout, finished.stderr[-2000:]


def test_wide_nodes_are_freed() -> None:
    with no_collector():
        x = weft.ones(1, requires_grad=True)
        joined = weft.cat([x * k for k in range(5_000)])
        watch = weakref.ref(joined)
        del joined
        assert watch() is None

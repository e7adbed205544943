"""Activation checkpointing: `weft.utils.checkpoint`."""

from __future__ import annotations

import gc
import warnings
import weakref
from typing import Any

import pytest

from ._target import submodule, weft

module = submodule("utils.checkpoint")
checkpoint = module.checkpoint

BOTH = pytest.mark.parametrize("use_reentrant", [False, True])


def leaf(*values: float) -> Any:
    return weft.tensor(list(values), dtype=weft.float64, requires_grad=True)


def block(x: Any, w: Any) -> Any:
    return (x * w).tanh() * w + x.exp()


@BOTH
def test_gradients_are_those_of_the_plain_function(use_reentrant: bool) -> None:
    x, w = leaf(0.3, -0.2), leaf(0.5, 0.7)
    block(block(x, w), w).sum().backward()
    expected = [x.grad.tolist(), w.grad.tolist()]
    x.grad = w.grad = None
    y = checkpoint(block, x, w, use_reentrant=use_reentrant)
    checkpoint(block, y, w, use_reentrant=use_reentrant).sum().backward()
    for found, right in zip((x.grad, w.grad), expected, strict=True):
        assert found.tolist() == pytest.approx(right, rel=1e-12)


@BOTH
def test_the_function_runs_twice(use_reentrant: bool) -> None:
    calls = []

    def counted(x: Any) -> Any:
        calls.append(weft.is_grad_enabled())
        return x.sin()

    x = leaf(1.0)
    y = checkpoint(counted, x, use_reentrant=use_reentrant)
    assert calls == [not use_reentrant]
    y.sum().backward()
    assert calls == [not use_reentrant, True]


def test_nothing_is_kept_until_backward() -> None:
    kept = []

    def remembering(x: Any) -> Any:
        y = x.sin()
        kept.append(weakref.ref(y))
        return (y * y).sum()

    loss = checkpoint(remembering, leaf(1.0, 2.0), use_reentrant=False)
    gc.collect()
    assert kept[0]() is None
    loss.backward()
    gc.collect()
    assert all(ref() is None for ref in kept)


@BOTH
def test_nested(use_reentrant: bool) -> None:
    x, w = leaf(0.3, -0.2), leaf(0.5, 0.7)
    calls = []

    def inner(value: Any) -> Any:
        calls.append("inner")
        return block(value, w.detach())

    def outer(value: Any) -> Any:
        calls.append("outer")
        return checkpoint(inner, checkpoint(inner, value, use_reentrant=use_reentrant),
                          use_reentrant=use_reentrant)  # fmt: skip

    outer_plain = block(block(x, w.detach()), w.detach())
    (expected,) = weft.autograd.grad(outer_plain.sum(), x)
    checkpoint(outer, x, use_reentrant=use_reentrant).sum().backward()
    assert x.grad.tolist() == pytest.approx(expected.tolist(), rel=1e-12)
    assert calls.count("outer") == 2


@BOTH
@pytest.mark.parametrize("preserve", [True, False])
def test_random_numbers_are_drawn_again(use_reentrant: bool, preserve: bool) -> None:
    seen = []

    def noisy(x: Any) -> Any:
        noise = weft.rand(4, dtype=weft.float64)
        seen.append(noise.tolist())
        return x * noise

    x = leaf(1.0, 2.0, 3.0, 4.0)
    y = checkpoint(noisy, x, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    before = weft.rand(2)
    y.sum().backward()
    after = weft.rand(2)
    assert (seen[0] == seen[1]) == preserve
    assert before.tolist() != after.tolist()
    assert x.grad.tolist() == seen[1]


def test_higher_derivatives_and_grad_work_without_reentrance() -> None:
    x = leaf(0.3, 0.8)
    y = checkpoint(lambda v: v.exp() * v, x, use_reentrant=False).sum()
    (g,) = weft.autograd.grad(y, x, create_graph=True)
    (gg,) = weft.autograd.grad(g.sum(), x)
    expected = [(v + 2) * weft.tensor(v).exp().item() for v in (0.3, 0.8)]
    assert gg.tolist() == pytest.approx(expected, rel=1e-6)


def test_grad_is_refused_with_reentrance() -> None:
    x = leaf(0.3)
    y = checkpoint(lambda v: v.exp(), x, use_reentrant=True).sum()
    with pytest.raises(RuntimeError, match="use_reentrant=False"):
        weft.autograd.grad(y, x)


def test_backward_twice() -> None:
    x = leaf(0.3)
    y = checkpoint(lambda v: v.exp(), x, use_reentrant=False).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == pytest.approx(2 * weft.tensor(0.3).exp().item(), rel=1e-6)


def test_keyword_arguments_and_other_values() -> None:
    def scaled(x: Any, *, factor: float, names: list[str]) -> Any:
        return (x * factor).exp(), names

    x = leaf(0.3)
    y, names = checkpoint(scaled, x, factor=2.0, names=["a"], use_reentrant=False)
    assert names == ["a"]
    y.sum().backward()
    assert x.grad.item() == pytest.approx(2 * y.item())
    with pytest.raises(ValueError, match="keyword"):
        checkpoint(scaled, x, factor=2.0, use_reentrant=True)


def test_a_function_that_does_something_else_the_second_time() -> None:
    calls = []

    def moody(x: Any) -> Any:
        calls.append(1)
        return x.exp() if len(calls) == 1 else x * 2

    y = checkpoint(moody, leaf(0.3), use_reentrant=False).sum()
    with pytest.raises(module.CheckpointError, match="different number"):
        y.backward()

    def growing(x: Any) -> Any:
        calls.append(1)
        return weft.cat([x] * len(calls)).exp().sum()

    y = checkpoint(growing, leaf(0.3), use_reentrant=False)
    with pytest.raises(module.CheckpointError, match="different metadata"):
        y.backward()


def test_recomputation_stops_early() -> None:
    reached = []

    def long(x: Any) -> Any:
        y = x.exp()
        reached.append("middle")
        z = y + 1
        reached.append("end")
        return z

    for early in (True, False):
        reached.clear()
        y = checkpoint(long, leaf(0.3), use_reentrant=False, early_stop=early)
        y.sum().backward()
        assert reached[2:] == ([] if early else ["middle", "end"])


def test_contexts_around_both_runs() -> None:
    log = []

    class Note:
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> None:
            log.append(self.name)

        def __exit__(self, *exception: object) -> None:
            log.append(f"end of {self.name}")

    y = checkpoint(
        lambda v: v.exp(), leaf(0.3), use_reentrant=False,
        context_fn=lambda: (Note("first"), Note("second")),
    )  # fmt: skip
    y.sum().backward()
    assert log == ["first", "end of first", "second", "end of second"]


def test_an_input_overwritten_in_between() -> None:
    x = leaf(0.3) * 1
    y = checkpoint(lambda v: v.exp(), x, use_reentrant=False)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_the_choice_should_be_made() -> None:
    with pytest.warns(UserWarning, match="use_reentrant"):
        checkpoint(lambda v: v.exp(), leaf(0.3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checkpoint(lambda v: v.exp(), leaf(0.3), use_reentrant=False)


@BOTH
def test_sequential(use_reentrant: bool) -> None:
    steps = [lambda v, k=k: (v * k).sin() for k in (1.0, 2.0, 3.0, 4.0, 5.0)]
    x = leaf(0.3, 0.4)
    plain = x
    for step in steps:
        plain = step(plain)
    (expected,) = weft.autograd.grad(plain.sum(), x)
    module.checkpoint_sequential(steps, 2, x, use_reentrant=use_reentrant).sum().backward()
    assert x.grad.tolist() == pytest.approx(expected.tolist(), rel=1e-12)


def test_without_gradient_nothing_is_prepared() -> None:
    with weft.no_grad():
        y = checkpoint(lambda v: v.exp(), leaf(0.3), use_reentrant=False)
    assert not y.requires_grad

"""Hooks on tensors, on nodes, after accumulation, and on saved tensors."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from ._target import weft, weft_only


def leaf(*values: float) -> Any:
    return weft.tensor(list(values), dtype=weft.float64, requires_grad=True)


# -- tensors -------------------------------------------------------------------------------


def test_a_hook_sees_the_gradient() -> None:
    x = leaf(1.0, 2.0)
    y = x * 3
    seen = []
    y.register_hook(lambda grad: seen.append(grad.tolist()))
    (y * y).sum().backward()
    assert seen == [[6.0, 12.0]]
    assert x.grad.tolist() == [18.0, 36.0]


def test_a_hook_replaces_the_gradient() -> None:
    x = leaf(1.0, 2.0)
    y = x * 3
    y.register_hook(lambda grad: grad * 10)
    x.register_hook(lambda grad: grad + 1)
    y.sum().backward()
    assert x.grad.tolist() == [31.0, 31.0]


def test_hooks_run_in_order_and_each_sees_the_last_result() -> None:
    x = leaf(1.0)
    x.register_hook(lambda grad: grad + 1)
    x.register_hook(lambda grad: grad * 10)
    (x * 1).backward()
    assert x.grad.tolist() == [20.0]


def test_a_removed_hook_is_silent() -> None:
    x = leaf(1.0)
    seen = []
    handle = x.register_hook(seen.append)
    (x * 1).backward()
    handle.remove()
    handle.remove()
    (x * 1).backward()
    assert len(seen) == 1
    with x.register_hook(seen.append):
        (x * 1).backward()
    (x * 1).backward()
    assert len(seen) == 2


def test_a_hook_gets_the_whole_gradient_once() -> None:
    x = leaf(2.0)
    y = x * 1
    seen = []
    y.register_hook(lambda grad: seen.append(grad.item()))
    (y * 2 + y * 3).backward()
    assert seen == [5.0]


def test_hooks_need_a_gradient() -> None:
    with pytest.raises(RuntimeError, match="require"):
        weft.ones(2).register_hook(print)


def test_a_hook_that_changes_the_shape_is_refused() -> None:
    x = leaf(1.0, 2.0)
    y = x * 1
    y.register_hook(lambda grad: grad[:1])
    with pytest.raises(RuntimeError):
        y.sum().backward()


def test_a_hook_that_returns_something_else_is_refused() -> None:
    x = leaf(1.0)
    y = x * 1
    y.register_hook(lambda grad: "gradient")
    with pytest.raises(TypeError):
        y.sum().backward()


def test_an_exception_in_a_hook_comes_through() -> None:
    x = leaf(1.0)
    y = x * 2

    class Special(Exception):
        pass

    def hook(grad: Any) -> None:
        raise Special("from the hook")

    handle = y.register_hook(hook)
    with pytest.raises(Special, match="from the hook"):
        y.sum().backward()
    handle.remove()
    z = x * 2
    z.sum().backward()
    assert x.grad.tolist() == [2.0]


def test_hooks_are_differentiated() -> None:
    x = leaf(3.0)
    y = x * 1
    y.register_hook(lambda grad: grad * grad)
    (g,) = weft.autograd.grad((y**2).sum(), x, create_graph=True)
    assert g.tolist() == [36.0]  # (2x)^2
    (gg,) = weft.autograd.grad(g.sum(), x)
    # d/dx (2y)^2 = 8x = 24, which passes the hook of y on its way down: 24^2.
    assert gg.tolist() == [576.0]


def test_a_hook_survives_its_tensors_name() -> None:
    x = leaf(1.0)
    y = x * 2
    seen = []
    y.register_hook(lambda grad: seen.append(grad.item()))
    z = (y * 3).sum()
    del y
    gc.collect()
    z.backward()
    assert seen == [3.0]


def test_hook_before_an_inplace_write_belongs_to_the_old_value() -> None:
    x = leaf(2.0)
    y = x * 1
    seen = []
    y.register_hook(lambda grad: seen.append(grad.item()))
    y.mul_(5)
    y.sum().backward()
    assert seen == [5.0]


def test_retain_grad_sees_what_hooks_left() -> None:
    x = leaf(2.0)
    y = x * 1
    y.retain_grad()
    y.register_hook(lambda grad: grad * 2)
    y.sum().backward()
    assert y.grad.tolist() == [2.0]


def test_hooks_run_for_inputs_of_grad() -> None:
    x = leaf(2.0)
    x.register_hook(lambda grad: grad * 7)
    assert weft.autograd.grad((x * 1).sum(), x)[0].tolist() == [7.0]


def test_retain_grad_follows_a_tensor_through_writes() -> None:
    x = leaf(2.0, 3.0)
    y = x * 3
    y.retain_grad()
    y.mul_(2)
    y[0].mul_(5)
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [30.0, 6.0]
    base = x * 1
    part = base[0]
    part.retain_grad()
    base.mul_(2)
    (part * 7).backward()
    assert part.grad.item() == 7.0


def test_hook_on_several_tensors() -> None:
    a, b = leaf(1.0), leaf(2.0)
    c, d = a * b, a * b
    seen: list[Any] = []
    graph = weft.autograd.graph
    handle = graph.register_multi_grad_hook(
        (a, b, c, d), lambda grads: seen.append([grad is not None for grad in grads])
    )
    c.sum().backward(retain_graph=True)
    c.sum().backward(inputs=(a,), retain_graph=True)
    assert seen == [[True, True, True, False], [True, False, True, False]]
    handle.remove()
    seen.clear()
    with graph.register_multi_grad_hook((a, b), lambda grad: seen.append(1), mode="any"):
        c.sum().backward(retain_graph=True)
        c.sum().backward(retain_graph=True)
    c.sum().backward()
    assert seen == [1, 1]
    with pytest.raises(ValueError, match="mode"):
        graph.register_multi_grad_hook((a,), print, mode="some")


def test_a_pass_that_fails_does_not_count_for_the_next() -> None:
    a, b = leaf(1.0), leaf(2.0)
    y = (a * 2) * (b * 3)
    seen = []
    weft.autograd.graph.register_multi_grad_hook((a, b), lambda grads: seen.append(len(grads)))

    def stop(grad: Any) -> None:
        raise ArithmeticError

    handle = b.register_hook(stop)
    with pytest.raises(ArithmeticError):
        y.sum().backward(retain_graph=True)
    handle.remove()
    y.sum().backward()
    assert seen == [2]


@weft_only  # PyTorch never frees these
def test_a_hook_that_refers_to_its_tensor_is_collected() -> None:
    x = leaf(1.0)
    y = x * 2
    y.register_hook(lambda grad, y=y: None)
    watch = weakref.ref(y)
    del y
    gc.collect()
    assert watch() is None


# -- after accumulation ----------------------------------------------------------------------


def test_post_accumulate_hook() -> None:
    x = leaf(1.0)
    seen = []

    def hook(parameter: Any) -> None:
        seen.append(parameter.grad.item())
        parameter.grad = None

    handle = x.register_post_accumulate_grad_hook(hook)
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert seen == [2.0, 3.0]
    assert x.grad is None
    handle.remove()
    (x * 4).sum().backward()
    assert x.grad.tolist() == [4.0]


def test_post_accumulate_hooks_are_for_leaves() -> None:
    with pytest.raises(RuntimeError, match="leaf"):
        (leaf(1.0) * 1).register_post_accumulate_grad_hook(print)


def test_an_optimiser_in_the_hook() -> None:
    w = leaf(1.0, -1.0)

    def step(parameter: Any) -> None:
        with weft.no_grad():
            parameter -= 0.1 * parameter.grad
        parameter.grad = None

    w.register_post_accumulate_grad_hook(step)
    for _ in range(20):
        (w * w).sum().backward()
    assert w.detach().abs().max().item() < 0.02


# -- nodes -------------------------------------------------------------------------------------


def test_node_hook_sees_both_sides() -> None:
    a, b = leaf(2.0), leaf(5.0)
    c = a * b
    seen = []
    c.grad_fn.register_hook(
        lambda into, out: seen.append(([g.item() for g in into], out[0].item()))
    )
    (c * 3).sum().backward()
    assert seen == [([15.0, 6.0], 3.0)]


def test_node_hook_replaces_what_goes_on() -> None:
    a, b = leaf(2.0), leaf(5.0)
    c = a * b
    handle = c.grad_fn.register_hook(lambda into, out: (into[0] * 100, into[1]))
    c.sum().backward(retain_graph=True)
    assert (a.grad.item(), b.grad.item()) == (500.0, 2.0)
    handle.remove()
    a.grad = None
    c.sum().backward()
    assert a.grad.item() == 5.0


def test_node_prehook_replaces_what_comes_in() -> None:
    a = leaf(2.0)
    c = a * 3
    seen = []

    def prehook(grads: Any) -> Any:
        seen.append(grads[0].item())
        return (grads[0] * 10,)

    c.grad_fn.register_prehook(prehook)
    c.sum().backward()
    assert seen == [1.0]
    assert a.grad.item() == 30.0


def test_node_metadata_is_a_dict() -> None:
    node = (leaf(1.0) * 2).grad_fn
    node.metadata["note"] = 3
    assert node.metadata == {"note": 3}


def test_attributes_of_nodes() -> None:
    x = leaf(2.0)
    y = x**3
    node = y.grad_fn
    assert node._saved_self is x
    assert node._saved_exponent == 3
    assert x.sum(0).grad_fn._saved_dim == (0,)
    assert x.exp().grad_fn._saved_result.item() == pytest.approx(2.718281828459045**2)
    with pytest.raises(AttributeError, match="_saved_other"):
        _ = node._saved_other
    with pytest.raises(AttributeError):
        node.note = 1
    y.backward()
    with pytest.raises(RuntimeError, match="freed"):
        _ = node._saved_self


def test_calling_a_node() -> None:
    a, b = leaf(2.0), leaf(5.0)
    into = (a * b).grad_fn(weft.tensor([3.0], dtype=weft.float64))
    assert [grad.item() for grad in into] == [15.0, 6.0]
    assert a.grad is None


def test_hook_on_the_accumulator() -> None:
    x = leaf(1.0)
    y = x * 2
    accumulate = y.grad_fn.next_functions[0][0]
    seen = []
    accumulate.register_hook(lambda into, out: seen.append(out[0].item()))
    y.sum().backward()
    assert seen == [2.0]


# -- saved tensors -------------------------------------------------------------------------------


def test_pack_and_unpack() -> None:
    packed, unpacked = [], []

    def pack(value: Any) -> Any:
        packed.append(value.tolist())
        return ("packed", value.detach().clone())

    def unpack(stored: Any) -> Any:
        label, value = stored
        assert label == "packed"
        unpacked.append(value.tolist())
        return value

    x = leaf(1.0, 2.0)
    with weft.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x * x
    assert packed
    assert not unpacked
    y.sum().backward()
    assert unpacked
    assert x.grad.tolist() == [2.0, 4.0]


def test_pack_hooks_change_the_gradient_when_they_change_the_value() -> None:
    x = leaf(1.0, 2.0)
    with weft.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * 10):
        y = x.exp()
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([10 * v for v in y.tolist()])


def test_saved_tensors_hooks_nest_and_end() -> None:
    log = []

    def hooks(name: str) -> Any:
        def pack(value: Any) -> Any:
            log.append(name)
            return value

        return weft.autograd.graph.saved_tensors_hooks(pack, lambda value: value)

    x = leaf(1.0)
    with hooks("outer"):
        with hooks("inner"):
            x.exp()
        assert set(log) == {"inner"}
        log.clear()
        x.exp()
        assert set(log) == {"outer"}
    log.clear()
    x.exp()
    assert log == []


def test_packing_to_a_file(tmp_path: Any) -> None:
    import pickle

    count = iter(range(1000))

    def pack(value: Any) -> Any:
        path = tmp_path / str(next(count))
        path.write_bytes(pickle.dumps(value.tolist()))
        return path

    def unpack(path: Any) -> Any:
        return weft.tensor(pickle.loads(path.read_bytes()), dtype=weft.float64)

    x = leaf(0.1, 0.2)
    with weft.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = (x * x).tanh().sum()
    assert list(tmp_path.iterdir())
    y.backward()
    z = leaf(0.1, 0.2)
    (z * z).tanh().sum().backward()
    assert x.grad.tolist() == pytest.approx(z.grad.tolist())


def test_a_pack_hook_must_not_write() -> None:
    x = leaf(1.0) * 1
    with (
        pytest.raises(RuntimeError, match="pack hook is modifying its input"),
        weft.autograd.graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t),
    ):
        x.exp()


@weft_only
def test_a_pack_hook_that_raises_leaks_nothing() -> None:
    def pack(value: Any) -> Any:
        raise ArithmeticError

    def attempt() -> None:
        x = leaf(1.0)
        with (
            pytest.raises(ArithmeticError),
            weft.autograd.graph.saved_tensors_hooks(pack, lambda value: value),
        ):
            x * x

    attempt()
    before = weft._core.live_counts()
    attempt()
    assert weft._core.live_counts() == before


def test_hooks_on_one_saved_value() -> None:
    x = leaf(2.0)
    y = x * x.detach()
    saved = y.grad_fn._raw_saved_other
    saved.register_hooks(lambda value: value.tolist(), lambda stored: 10 * x.new_tensor(stored))
    with pytest.raises(RuntimeError, match="already been set"):
        saved.register_hooks(lambda value: value, lambda value: value)
    y.backward()
    assert x.grad.tolist() == [20.0]


def test_unpack_must_give_a_tensor() -> None:
    x = leaf(1.0)
    with weft.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: "no tensor"):
        y = x.exp()
    with pytest.raises(TypeError):
        y.sum().backward()


def test_saved_results_do_not_make_cycles() -> None:
    x = leaf(1.0)
    with weft.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
        y = x.exp()
    watch = weakref.ref(y)
    gc.disable()
    try:
        del y
        assert watch() is None
    finally:
        gc.enable()


def test_save_on_cpu() -> None:
    x = leaf(1.0, 2.0)
    with weft.autograd.graph.save_on_cpu():
        y = (x * x).sum()
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_disabled_saved_tensors_hooks() -> None:
    with (
        weft.autograd.graph.disable_saved_tensors_hooks("not here"),
        pytest.raises(RuntimeError, match="not here"),
        weft.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    ):
        pass

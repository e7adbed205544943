"""Recording and backward: the graph that was walked, gradients, modes, accumulation, freeing."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

from ._target import IS_WEFT, weft, weft_only


def leaf(*values: float) -> Any:
    return weft.tensor(list(values), dtype=weft.float64, requires_grad=True)


def scalar(value: float) -> Any:
    return weft.tensor(value, dtype=weft.float64, requires_grad=True)


def names(node: Any) -> list[str]:
    """Names of all nodes upstream, each once, in the order they are met."""
    todo, seen = [node], {}  # the nodes themselves are kept: an id may be used again
    while todo:
        current = todo.pop(0)
        if current is None or id(current) in seen:
            continue
        seen[id(current)] = current
        todo += [upstream for upstream, _ in current.next_functions]
    return [node.name() for node in seen.values()]


# -- the graph is what Python walked -------------------------------------------------------


def test_branches_on_data_give_other_graphs_and_gradients() -> None:
    def model(x: Any) -> Any:
        return (x * 3).sum() if x.sum() > 0 else (x * x).exp().sum()

    positive, negative = leaf(1.0, 2.0), leaf(-1.0, -2.0)
    one, other = model(positive), model(negative)
    assert "ExpBackward0" not in names(one.grad_fn)
    assert "ExpBackward0" in names(other.grad_fn)
    one.backward()
    other.backward()
    assert positive.grad.tolist() == [3.0, 3.0]
    expected = [2 * v * math.exp(v * v) for v in (-1.0, -2.0)]
    assert negative.grad.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_loops_with_data_dependent_trip_counts(trips: int) -> None:
    x = scalar(2.0)
    y, count = x * 1, 0
    while y < 2.0 * 3**trips:
        y = y * 3
        count += 1
    assert count == trips
    y.backward()
    assert x.grad.item() == 3.0**trips
    assert names(y.grad_fn).count("MulBackward0") == trips + 1


def test_recursion_over_trees() -> None:
    w = scalar(0.5)

    def value(tree: Any) -> Any:
        if isinstance(tree, float):
            return weft.tensor(tree, dtype=weft.float64)
        left, right = tree
        return w * value(left) + value(right)

    # w (w 1 + 2) + (w 3 + 4) = w^2 + 5 w + 4
    out = value(((1.0, 2.0), (3.0, 4.0)))
    out.backward()
    assert out.item() == pytest.approx(0.25 + 2.5 + 4)
    assert w.grad.item() == pytest.approx(2 * 0.5 + 5)


def test_early_return_and_exceptions_leave_what_was_recorded() -> None:
    x = scalar(3.0)

    def risky(value: Any) -> Any:
        doubled = value * 2
        if doubled > 5:
            raise ArithmeticError("too large")
        return doubled

    try:
        y = risky(x)
    except ArithmeticError:
        y = x * x
    y.backward()
    assert x.grad.item() == 6.0


def test_a_model_that_grows_while_it_trains() -> None:
    layers = [leaf(0.5, -0.5)]
    data = weft.tensor([1.0, 2.0], dtype=weft.float64)
    losses = []
    for step in range(30):
        if step == 10:
            layers.append(leaf(0.1, 0.2))
        out = data
        for weight in layers:
            out = (out * weight).tanh()
        loss = ((out - 0.3) ** 2).sum()
        grads = weft.autograd.grad(loss, layers)
        with weft.no_grad():
            for weight, grad in zip(layers, grads, strict=True):
                weight -= 0.5 * grad
        losses.append(loss.item())
    assert losses[9] < losses[0]
    assert losses[-1] < losses[10]


# -- where a result came from --------------------------------------------------------------


def test_walking_the_graph_by_hand_reproduces_it() -> None:
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    out = (a * b + a).sum()
    node = out.grad_fn
    assert node.name() == "SumBackward0"
    ((add, nr),) = node.next_functions
    assert (add.name(), nr) == ("AddBackward0", 0)
    (mul, _), (accumulate_a, _) = add.next_functions
    assert mul.name() == "MulBackward0"
    (first, _), (second, _) = mul.next_functions
    assert first.variable is a
    assert second.variable is b
    assert accumulate_a is first
    assert first.name().endswith("AccumulateGrad")
    assert first.next_functions == ()


def test_nodes_print_and_compare_as_objects() -> None:
    x = leaf(2.0)
    y = x**2
    assert repr(y.grad_fn).startswith("<PowBackward0 object at 0x")
    assert type(y.grad_fn).__name__ == "PowBackward0"
    assert y.grad_fn is y.grad_fn
    assert repr(y) == "tensor([4.], dtype=torch.float64, grad_fn=<PowBackward0>)"
    assert repr((y + 1).grad_fn.next_functions[0][0]) == repr(y.grad_fn)


def test_leaves_and_requires_grad() -> None:
    plain = weft.ones(2)
    assert plain.is_leaf
    assert not plain.requires_grad
    assert plain.grad_fn is None
    x = leaf(1.0)
    assert x.is_leaf
    assert x.grad is None
    y = x * 2
    assert not y.is_leaf
    assert y.requires_grad
    assert y.output_nr == 0
    assert not (plain * 2).requires_grad
    assert (plain * 2).is_leaf
    assert not x.detach().requires_grad
    assert x.requires_grad_(False) is x
    assert not x.requires_grad


def test_output_numbers() -> None:
    x = leaf(3.0, 1.0, 2.0)
    values, indices = x.sort()
    assert values.output_nr == 0
    assert not indices.requires_grad
    first, second = (x * 1).split([1, 2])
    if not IS_WEFT:  # which has a node for each part, so that parts can be many
        assert (first.output_nr, second.output_nr) == (0, 1)
        assert first.grad_fn is second.grad_fn
    upstream = [part.grad_fn.next_functions[0][0] for part in (first, second)]
    assert upstream[0] is upstream[1]


def test_integers_cannot_require_gradients() -> None:
    with pytest.raises(RuntimeError, match="floating point"):
        weft.tensor([1, 2], requires_grad=True)
    with pytest.raises(RuntimeError, match="floating point"):
        weft.ones(2, dtype=weft.int64).requires_grad_()
    assert not (leaf(1.5).round() > 1).requires_grad


def test_requires_grad_of_a_result_cannot_be_taken_away() -> None:
    y = leaf(1.0) * 2
    with pytest.raises(RuntimeError, match="leaf"):
        y.requires_grad = False
    assert y.requires_grad


def test_retain_grad() -> None:
    x = leaf(1.0, 2.0)
    y = x * 3
    y.retain_grad()
    assert y.retains_grad
    (y * y).sum().backward()
    assert y.grad.tolist() == [6.0, 12.0]
    assert x.grad.tolist() == [18.0, 36.0]
    assert not x.retains_grad
    with pytest.raises(RuntimeError):
        weft.ones(2).retain_grad()


def test_grad_of_a_result_warns() -> None:
    y = leaf(1.0) * 2
    with pytest.warns(UserWarning, match="leaf"):
        assert y.grad is None


# -- backward and grad ---------------------------------------------------------------------


def test_smallest_backward() -> None:
    a, b = scalar(3.0), scalar(4.0)
    (a * b).backward()
    assert (a.grad.item(), b.grad.item()) == (4.0, 3.0)


def test_gradient_argument() -> None:
    x = leaf(1.0, 2.0)
    (x * x).backward(weft.tensor([1.0, 10.0], dtype=weft.float64))
    assert x.grad.tolist() == [2.0, 40.0]
    with pytest.raises(RuntimeError, match="scalar"):
        (x * x).backward()
    with pytest.raises(RuntimeError):
        (x * x).backward(weft.ones(3, dtype=weft.float64))


def test_several_roots() -> None:
    x = leaf(1.0, 2.0)
    a, b = (x * 2).sum(), (x * x).sum()
    weft.autograd.backward([a, b])
    assert x.grad.tolist() == [4.0, 6.0]
    c = x * x
    ones = weft.ones(2, dtype=weft.float64)
    assert weft.autograd.grad([c, c], [x], [ones, ones])[0].tolist() == [4.0, 8.0]


def test_the_same_tensor_twice() -> None:
    x = scalar(3.0)
    y = x * x * x
    assert weft.autograd.grad(y, x)[0].item() == 27.0
    z = x + x
    assert [g.item() for g in weft.autograd.grad(z, [x, x])] == [2.0, 2.0]


def test_gradient_with_respect_to_a_result() -> None:
    x = scalar(2.0)
    y = x * x
    z = y * y
    dy, dx = weft.autograd.grad(z, [y, x])
    assert (dy.item(), dx.item()) == (8.0, 32.0)
    assert weft.autograd.grad(y, y)[0].item() == 1.0


def test_inputs_argument_of_backward() -> None:
    a, b = scalar(2.0), scalar(3.0)
    c = a * b
    d = c * a
    d.backward(inputs=[a, c])
    assert a.grad.item() == 12.0
    assert b.grad is None
    assert c.grad.item() == 2.0
    with pytest.raises(RuntimeError, match="empty"):
        (a * b).backward(inputs=[])


def test_edges_stand_for_tensors() -> None:
    x = scalar(2.0)
    y = x * x
    edge = weft.autograd.graph.get_gradient_edge(y)
    assert edge.node is y.grad_fn
    z = y * y
    assert weft.autograd.grad(z, edge, retain_graph=True)[0].item() == 8.0
    del y, z
    assert weft.autograd.grad(edge, x, retain_graph=True)[0].item() == 4.0
    weft.autograd.backward(edge, weft.tensor(3.0, dtype=weft.float64), retain_graph=True)
    assert x.grad.item() == 12.0
    leaf_edge = weft.autograd.graph.get_gradient_edge(x)
    assert weft.autograd.grad(edge, leaf_edge)[0].item() == 4.0
    with pytest.raises(RuntimeError, match="does not require"):
        weft.autograd.graph.get_gradient_edge(weft.ones(1))


def test_unused_inputs() -> None:
    a, b = scalar(2.0), scalar(3.0)
    with pytest.raises(RuntimeError, match="allow_unused"):
        weft.autograd.grad(a * 2, [a, b])
    da, db = weft.autograd.grad(a * 2, [a, b], allow_unused=True)
    assert (da.item(), db) == (2.0, None)
    da, db = weft.autograd.grad(a * 2, [a, b], materialize_grads=True)
    assert (da.item(), db.item()) == (2.0, 0.0)


def test_nothing_to_differentiate() -> None:
    with pytest.raises(RuntimeError, match="does not require grad"):
        weft.ones(()).backward()
    with pytest.raises(RuntimeError):
        weft.autograd.grad(scalar(1.0) * 2, weft.ones(()))


def test_gradients_of_several_dtypes_and_broadcasts() -> None:
    a = weft.ones(3, 1, requires_grad=True)
    b = weft.ones(4, dtype=weft.float64, requires_grad=True)
    (a * b).sum().backward()
    assert a.grad.dtype is weft.float32
    assert a.grad.shape == (3, 1)
    assert a.grad.tolist() == [[4.0]] * 3
    assert b.grad.dtype is weft.float64
    assert b.grad.tolist() == [3.0] * 4


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_create_graph_of_any_order(order: int) -> None:
    x = scalar(0.7)
    current = x**6 * weft.exp(x)
    for _ in range(order):
        (current,) = weft.autograd.grad(current, x, create_graph=True)
    # Leibniz: sum of C(n, k) (x^6)^(k) e^x
    expected = sum(
        math.comb(order, k) * math.perm(6, k) * 0.7 ** (6 - k) for k in range(order + 1)
    ) * math.exp(0.7)
    assert current.item() == pytest.approx(expected, rel=1e-12)
    assert current.requires_grad


def test_higher_order_through_a_sum_of_outer_products() -> None:
    x = leaf(1.0, 2.0, 3.0)
    (g,) = weft.autograd.grad((x.sin() * x.prod()).sum(), x, create_graph=True)
    rows = [weft.autograd.grad(part, x, retain_graph=True)[0].tolist() for part in g]
    for i in range(3):
        for j in range(3):
            assert rows[i][j] == pytest.approx(rows[j][i], rel=1e-12)  # Hessians are symmetric


def test_backward_with_create_graph_gives_a_differentiable_grad() -> None:
    x = scalar(3.0)
    with pytest.warns(UserWarning, match="create_graph"):
        (x**3).backward(create_graph=True)
    assert x.grad.requires_grad
    assert weft.autograd.grad(x.grad, x)[0].item() == 18.0
    x.grad = None


def test_is_grads_batched() -> None:
    x = leaf(1.0, 2.0, 3.0)
    y = x * x
    rows = weft.autograd.grad(y, x, weft.eye(3, dtype=weft.float64), is_grads_batched=True)[0]
    assert rows.tolist() == [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]


# -- freeing, keeping, accumulating ---------------------------------------------------------


def test_the_graph_is_freed_by_backward() -> None:
    x = scalar(2.0)
    y = x * x
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_retain_graph_twice_accumulates() -> None:
    x = scalar(2.0)
    y = x * x
    for count in range(1, 4):
        y.backward(retain_graph=True)
        assert x.grad.item() == 4.0 * count
    y.backward()
    assert x.grad.item() == 16.0


def test_without_saved_values_a_second_backward_works() -> None:
    x = scalar(2.0)
    y = x + 1
    y.backward()
    y.backward()
    assert x.grad.item() == 2.0


def test_accumulate_until_cleared() -> None:
    x = leaf(1.0, 1.0)
    (x * 2).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    assert x.grad is first  # added in place
    assert x.grad.tolist() == [5.0, 5.0]
    x.grad.zero_()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    x.grad = None
    (x * 4).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_assigning_grad_is_checked() -> None:
    x = leaf(1.0, 2.0)
    x.grad = weft.ones(2, dtype=weft.float64)
    (x * 1).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError):
        x.grad = weft.ones(3, dtype=weft.float64)
    with pytest.raises(RuntimeError):
        x.grad = weft.ones(2, dtype=weft.float32)
    with pytest.raises(TypeError):
        x.grad = 3
    with pytest.raises(RuntimeError):
        x.grad = x


def test_the_gradient_is_not_the_callers_tensor() -> None:
    x = leaf(1.0, 2.0)
    seed = weft.ones(2, dtype=weft.float64)
    (x + 0).backward(seed)
    x.grad.mul_(5)
    assert seed.tolist() == [1.0, 1.0]
    a, b = leaf(1.0), leaf(1.0)
    (a + b).sum().backward()
    a.grad.mul_(7)
    assert b.grad.tolist() == [1.0]


def test_the_gradient_is_laid_out_as_its_leaf() -> None:
    x = weft.ones(3, 4).t().requires_grad_()
    (x * 2).backward(weft.ones(4, 3))
    assert x.grad.stride() == (1, 4)
    spread = weft.ones(1, 4).expand(3, 4).requires_grad_()
    (spread * 2).sum().backward()
    assert spread.grad.stride() == (4, 1)


@weft_only  # PyTorch adds up gradients of the old shape
def test_a_leaf_that_gets_another_shape() -> None:
    x = leaf(1.0, 2.0)
    before = x * 2
    x.data = weft.ones(3, dtype=weft.float64)
    with pytest.raises(RuntimeError):
        before.sum().backward()
    del before
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0] * 3
    with weft.no_grad():
        x.unsqueeze_(0)
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [[3.0] * 3]


@weft_only  # PyTorch computes with the wrong shape and fails in backward
def test_data_of_a_result_keeps_its_shape() -> None:
    y = leaf(1.0, 2.0) * 2
    y.data = y.data * 3
    with pytest.raises(RuntimeError, match="another shape"):
        y.data = weft.ones(3, dtype=weft.float64)


def test_a_leaf_detached_after_its_use_gets_no_gradient() -> None:
    x = leaf(1.0)
    y = x * 2
    x.detach_()
    y.backward()
    assert x.grad is None


def test_a_leaf_used_many_times() -> None:
    w = weft.ones(3, 3, dtype=weft.float64, requires_grad=True)
    h = weft.ones(3, dtype=weft.float64)
    total: Any = 0
    for step in range(50):
        total = total + (w @ h).sum() * step
    total.backward()
    assert w.grad.tolist() == [[float(sum(range(50)))] * 3] * 3


# -- modes ----------------------------------------------------------------------------------


def test_no_grad_as_context_and_decorator() -> None:
    x = leaf(1.0)
    with weft.no_grad():
        assert not weft.is_grad_enabled()
        assert not (x * 2).requires_grad
        with weft.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    assert weft.is_grad_enabled()

    @weft.no_grad()
    def decorated(value: Any) -> Any:
        """A docstring."""
        return value * 2

    assert not decorated(x).requires_grad
    assert decorated.__doc__ == "A docstring."
    assert decorated.__name__ == "decorated"
    assert weft.is_grad_enabled()


def test_no_grad_decorates_generators() -> None:
    x = leaf(1.0)

    @weft.no_grad()
    def results() -> Any:
        yield x * 2
        assert not weft.is_grad_enabled()
        yield x * 3

    for result in results():
        assert not result.requires_grad
        assert weft.is_grad_enabled()  # the caller's mode is its own


def test_modes_are_restored_by_exceptions() -> None:
    with pytest.raises(KeyError), weft.no_grad():
        raise KeyError("x")
    assert weft.is_grad_enabled()


def test_set_grad_enabled() -> None:
    x = leaf(1.0)
    with weft.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad
    weft.set_grad_enabled(False)
    try:
        assert not (x * 2).requires_grad
    finally:
        weft.set_grad_enabled(True)
    assert (x * 2).requires_grad


def test_inference_mode() -> None:
    x = leaf(1.0)
    with weft.inference_mode():
        y = x * 2
        z = weft.ones(1, dtype=weft.float64)
        assert weft.is_inference_mode_enabled()
    assert y.is_inference()
    assert not y.requires_grad
    before = z.tolist()
    with pytest.raises(RuntimeError):
        z.add_(1)
    if IS_WEFT:  # PyTorch raises after it has written
        assert z.tolist() == before
    with pytest.raises(RuntimeError):
        x * z
    with pytest.raises(RuntimeError):
        z.requires_grad_()
    assert not (z + 1).is_inference()
    assert (x * z.clone()).requires_grad
    with weft.inference_mode():
        z.add_(1)
        with weft.inference_mode(False):
            assert (x * 2).requires_grad


def test_modes_belong_to_threads() -> None:
    seen = []

    def look() -> None:
        seen.append(weft.is_grad_enabled())

    with weft.no_grad():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == [True]


def test_detach() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    z = y.detach()
    assert z.data_ptr() == y.data_ptr()
    assert not z.requires_grad
    (y * z).sum().backward()
    assert x.grad.tolist() == [4.0, 8.0]
    w = x * 3
    assert w.detach_() is w
    assert w.is_leaf
    assert not w.requires_grad


# -- several passes at once -------------------------------------------------------------------


def test_backward_inside_backward() -> None:
    x = scalar(2.0)
    inner_results = []

    class Inner(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Any) -> Any:
            ctx.save_for_backward(value)
            return value * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (value,) = ctx.saved_tensors
            with weft.enable_grad():
                again = value.detach().requires_grad_()
                (inner,) = weft.autograd.grad(again**3, again)
            inner_results.append(inner.item())
            return grad * inner

    (Inner.apply(x) * 5).backward()
    assert inner_results == [12.0]
    assert x.grad.item() == 60.0


def test_deep_reentrant_backward() -> None:
    class Nested(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Any, depth: int) -> Any:
            ctx.depth = depth
            return value.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            if ctx.depth > 0:
                with weft.enable_grad():
                    y = scalar(1.0)
                    Nested.apply(y, ctx.depth - 1).backward()
                    assert y.grad.item() == 1.0
            return grad, None

    x = scalar(1.0)
    Nested.apply(x, 60).backward()
    assert x.grad.item() == 1.0


def checkpoint(function: Any, *arguments: Any) -> Any:
    """Recomputes `function` in backward instead of keeping what it saved."""

    class Checkpoint(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *values: Any) -> Any:
            ctx.save_for_backward(*values)
            with weft.no_grad():
                return function(*values)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            values = [value.detach().requires_grad_() for value in ctx.saved_tensors]
            with weft.enable_grad():
                out = function(*values)
            weft.autograd.backward(out, grad)
            return tuple(value.grad for value in values)

    return Checkpoint.apply(*arguments)


def test_checkpoint_style_nested_backward() -> None:
    x, w = leaf(0.3, -0.2), leaf(0.5, 0.7)

    def block(value: Any, weight: Any) -> Any:
        return (value * weight).tanh() * weight

    plain = x
    for _ in range(4):
        plain = block(plain, w)
    expected = weft.autograd.grad(plain.sum(), [x, w])

    def inner(value: Any, weight: Any) -> Any:
        return checkpoint(block, checkpoint(block, value, weight), weight)

    checked = checkpoint(inner, checkpoint(inner, x, w), w)
    found = weft.autograd.grad(checked.sum(), [x, w])
    for one, other in zip(found, expected, strict=True):
        assert one.tolist() == pytest.approx(other.tolist(), rel=1e-12)


def test_backward_from_several_threads_on_shared_leaves() -> None:
    w = weft.ones(8, dtype=weft.float64, requires_grad=True)
    repeats, threads, errors = 50, 4, []

    def work(factor: int) -> None:
        try:
            for _ in range(repeats):
                (w * factor).tanh().sum().backward()
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(1, threads + 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not errors
    expected = repeats * sum(k / math.cosh(k) ** 2 for k in range(1, threads + 1))
    assert w.grad.tolist() == pytest.approx([expected] * 8, rel=1e-9)


def test_one_graph_from_several_threads() -> None:
    x = scalar(2.0)
    y = x.exp()
    found = []

    def work() -> None:
        found.append(weft.autograd.grad(y, x, retain_graph=True)[0].item())

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == pytest.approx([math.exp(2.0)] * 4)


# -- finding NaN ------------------------------------------------------------------------------


def test_detect_anomaly() -> None:
    x = scalar(0.0)
    with pytest.warns(UserWarning, match="[Aa]nomaly"), weft.autograd.detect_anomaly():
        y = (x * x).sqrt() * 0
        with pytest.raises(RuntimeError, match="SqrtBackward0"):
            y.backward()
    assert not weft.is_anomaly_enabled()
    (scalar(4.0).sqrt() * 1).backward()


def test_anomaly_mode_shows_the_line() -> None:
    x = scalar(0.0)
    with weft.autograd.set_detect_anomaly(True):
        y = (x * x).sqrt() * 0  # the line to be named
        with pytest.warns(UserWarning) as warned, pytest.raises(RuntimeError) as caught:
            y.backward()
    # PyTorch warns with the traceback; weft may put it into the message.
    text = str(caught.value) + "".join(str(warning.message) for warning in warned)
    assert "test_autograd.py" in text


# -- depth --------------------------------------------------------------------------------------


def test_deep_chain() -> None:
    x = scalar(1.0)
    y = x
    for _ in range(200_000):
        y = y + 1e-9
    y.backward()
    assert x.grad.item() == 1.0


def test_a_deep_chain_is_freed_without_backward() -> None:
    y = scalar(1.0)
    for _ in range(200_000):
        y = y * 1.0
    del y


def test_wide_graph() -> None:
    x = scalar(1.0)
    parts = [x * k for k in range(2_000)]
    weft.stack(parts).sum().backward()
    assert x.grad.item() == sum(range(2_000))


def test_deep_chain_of_views_and_writes() -> None:
    x = weft.ones(4, dtype=weft.float64, requires_grad=True)
    y = x.clone()
    for step in range(2_000):
        y[step % 4] *= 1.0
    y.sum().backward()
    assert x.grad.tolist() == [1.0] * 4


def test_a_tensor_that_multiplies_itself_in_place() -> None:
    x = weft.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    y.mul_(y)
    y.sum().backward()
    assert y.tolist() == [1.0, 4.0, 9.0]
    assert x.grad.tolist() == [2.0, 4.0, 6.0]


@pytest.mark.parametrize("name", ["floor_divide_", "remainder_", "fmod_"])
@pytest.mark.parametrize("divisor", [0, [1, 0]])
def test_a_division_by_zero_leaves_its_tensor_alone(name: str, divisor: object) -> None:
    numbers = weft.tensor([6, 7])
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        getattr(numbers, name)(divisor if divisor == 0 else weft.tensor(divisor))
    assert numbers.tolist() == [6, 7]
    assert numbers._version == 0


def test_numbers_that_do_not_fit_leave_the_tensor_alone() -> None:
    bytes_ = weft.tensor([1, 2], dtype=weft.uint8)
    for call in (
        lambda: bytes_.clamp_(max=300),
        lambda: bytes_.clamp_(-1),
        lambda: bytes_.fill_(300),
        lambda: bytes_.add_(2**70),
    ):
        with pytest.raises(RuntimeError, match=r"[Oo]verflow"):
            call()
    assert bytes_.tolist() == [1, 2]


def test_a_leaf_that_became_part_of_the_graph_says_so() -> None:
    x = weft.ones(2, requires_grad=True)
    y = x * 2
    z = weft.ones(2, requires_grad=True)
    loss = (z * 3).sum()
    z.detach_()
    z += y.detach() * 0 + y
    with pytest.raises(RuntimeError, match="moved into the graph interior"):
        loss.backward()


def test_memory_that_is_exchanged_while_a_kernel_reads_it() -> None:
    import threading

    x = weft.ones(3_000_000)
    stop = threading.Event()

    def exchange() -> None:
        while not stop.is_set():
            x.data = weft.ones(3_000_000)

    other = threading.Thread(target=exchange)
    other.start()
    try:
        totals = {x.exp().sum().item() for _ in range(60)}
    finally:
        stop.set()
        other.join()
    assert len(totals) == 1

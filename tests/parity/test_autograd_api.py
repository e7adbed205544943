"""The recording and backward interface, side by side: each scenario runs in both libraries.

A scenario takes the module and returns what must be equal (numbers, names, flags); an exception is
an answer, too, and must be of the same class.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from .._target import weft

SCENARIOS: dict[str, Callable[[Any], Any]] = {}


def scenario(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    SCENARIOS[function.__name__] = function
    return function


def outcome(call: Callable[[Any], Any], module: Any) -> tuple[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return "done", call(module)
        except Exception as error:
            gc.collect()
            return "refused", type(error).__name__


def numbers(value: Any) -> Any:
    """Nested lists of rounded numbers."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [numbers(item) for item in value]
    found = value.detach().double().tolist()
    return rounded(found)


def rounded(value: Any) -> Any:
    return [rounded(item) for item in value] if isinstance(value, list) else round(value, 9)


def leaf(m: Any, *values: float) -> Any:
    return m.tensor(list(values), dtype=m.float64, requires_grad=True)


# -- A1-A2: the graph ------------------------------------------------------------------------


# PyTorch has a node of its own for `1 - a`.
SAME_NODES = {"RsubBackward": "SubBackward", "MaxDimBackward": "MaxBackward"}


def graph_text(node: Any, depth: int = 0) -> list[str]:
    # PyTorch calls it `torch::autograd::AccumulateGrad`, and numbers the overloads of an operation.
    name = node.name().rpartition("::")[2].rstrip("0123456789")
    lines = [f"{'  ' * depth}{SAME_NODES.get(name, name)}"]
    for upstream, number in node.next_functions:
        # Inputs without gradient: weft lists those that never have one, too (indices, numbers).
        if upstream is not None:
            first, *rest = graph_text(upstream, depth + 1)
            lines += [f"{first} {number}", *rest]
    return lines


@scenario
def graphs_of_primitives(m: Any) -> Any:
    a, b = leaf(m, 0.5, 0.7), leaf(m, 1.5, 1.7)
    plain = m.tensor([1.0, 2.0], dtype=m.float64)
    results = [
        a + b, a - b, a * b, a / b, a**2, a**b, 2**a, -a, a.exp(), a.log(), a.sqrt(), a.tanh(),
        a.sigmoid(), a.relu(), a.abs(), a.sin(), a.cos(), a.sum(), a.mean(), a.sum(0), a.prod(),
        a.max(), a.min(), a.max(0)[0], a[0], a[None], a[:1], a.view(2, 1), a.t(), a.unsqueeze(0),
        a.expand(3, 2), a.clone(), m.cat([a, b]), m.stack([a, b]), m.where(plain > 1, a, b),
        a.cumsum(0), a * plain, plain * a, a + 1, 1 - a, a.transpose(0, 0), a.squeeze(),
        a.flip(0), a.clamp(0, 1), a.index_select(0, m.tensor([0])), a.gather(0, m.tensor([1])),
        a.masked_fill(plain > 1, 0.0), a.sort()[0], a.repeat(2), a.unbind(0)[1], a.select(0, 1),
        a.reciprocal(), a.rsqrt(), a.maximum(b), (a[:, None] * b).mm(b[:, None] * a),
    ]  # fmt: skip
    return [graph_text(result.grad_fn) for result in results]


@scenario
def flags_of_leaves_and_results(m: Any) -> Any:
    a = leaf(m, 1.0)
    tensors = [
        a, a * 2, a.detach(), a.data, m.ones(2), m.ones(2, requires_grad=True), (a * 2).detach(),
        m.ones(2) * 2, a.clone(), a.view(-1), a.detach().clone(), m.ones_like(a), a.new_zeros(2),
        m.empty_like(a), a.to(m.float32), a.to(m.float64), a.requires_grad_(), a.bool(), a > 0,
        m.tensor(2.0), a.argmax(), a.int(),
    ]  # fmt: skip
    return [(t.requires_grad, t.is_leaf, t.grad_fn is None, t._is_view()) for t in tensors]


@scenario
def names_after_conversion(m: Any) -> Any:
    a = leaf(m, 1.0)
    return [a.float().grad_fn.name(), a.to(m.float32).grad_fn.name(), a.half().grad_fn.name()]


@scenario
def accumulate_grad_is_shared(m: Any) -> Any:
    a = leaf(m, 1.0)
    b, c = a * 2, a * 3
    one = b.grad_fn.next_functions[0][0]
    other = c.grad_fn.next_functions[0][0]
    return one is other, one.variable is a, type(one).__name__


# -- A3: backward and grad -------------------------------------------------------------------


@scenario
def backward_of_non_scalar(m: Any) -> Any:
    (leaf(m, 1.0, 2.0) * 2).backward()


@scenario
def backward_of_one_element(m: Any) -> Any:
    a = leaf(m, 3.0)
    (a * a).backward()
    return numbers(a.grad)


@scenario
def backward_of_integers(m: Any) -> Any:
    m.ones(1, dtype=m.int64).backward()


@scenario
def wrong_gradient_shape(m: Any) -> Any:
    (leaf(m, 1.0, 2.0) * 2).backward(m.ones(3, dtype=m.float64))


@scenario
def gradient_that_would_broadcast(m: Any) -> Any:
    (leaf(m, 1.0, 2.0) * 2).backward(m.ones((), dtype=m.float64))


@scenario
def gradient_of_another_dtype(m: Any) -> Any:
    a = leaf(m, 1.0, 2.0)
    (a * 2).backward(m.ones(2, dtype=m.float32))
    return numbers(a.grad), str(a.grad.dtype).rpartition(".")[2]


@scenario
def gradient_that_is_a_number(m: Any) -> Any:
    (leaf(m, 1.0) * 2).backward(1.0)


@scenario
def gradient_that_requires_grad(m: Any) -> Any:
    a, v = leaf(m, 1.0, 2.0), leaf(m, 1.0, 1.0)
    (g,) = m.autograd.grad(a * a, a, v, create_graph=True)
    return numbers(m.autograd.grad(g.sum(), [a, v]))


@scenario
def grad_of_unused(m: Any) -> Any:
    a, b = leaf(m, 1.0), leaf(m, 1.0)
    return m.autograd.grad(a * 2, [a, b])


@scenario
def grad_of_unused_allowed(m: Any) -> Any:
    a, b = leaf(m, 1.0), leaf(m, 1.0)
    return numbers(m.autograd.grad(a * 2, [a, b], allow_unused=True))


@scenario
def materialized_but_not_allowed(m: Any) -> Any:
    a, b = leaf(m, 1.0), leaf(m, 1.0)
    return m.autograd.grad(a * 2, [a, b], allow_unused=False, materialize_grads=True)


@scenario
def grad_of_something_without_grad(m: Any) -> Any:
    return m.autograd.grad(m.ones(1), leaf(m, 1.0))


@scenario
def grad_with_respect_to_something_without_grad(m: Any) -> Any:
    return m.autograd.grad(leaf(m, 1.0) * 2, m.ones(1))


@scenario
def grad_with_none_cotangents(m: Any) -> Any:
    a = leaf(m, 2.0)
    y = a * a
    return numbers(m.autograd.grad([y, y * 2], a, [None, m.ones(1, dtype=m.float64)]))


@scenario
def grad_with_too_few_cotangents(m: Any) -> Any:
    a = leaf(m, 2.0)
    return m.autograd.grad([a * 1, a * 2], a, [None])


@scenario
def grad_of_nothing(m: Any) -> Any:
    return m.autograd.grad([], leaf(m, 1.0))


@scenario
def backward_of_nothing(m: Any) -> Any:
    return m.autograd.backward([])


@scenario
def grad_with_respect_to_nothing(m: Any) -> Any:
    a = leaf(m, 1.0)
    return m.autograd.grad(a * 1, [])


@scenario
def backward_with_inputs(m: Any) -> Any:
    a, b = leaf(m, 2.0), leaf(m, 3.0)
    c = a * b
    (c * a).sum().backward(inputs=[b])
    return numbers([a.grad, b.grad])


@scenario
def backward_with_inputs_that_are_not_used(m: Any) -> Any:
    a, b = leaf(m, 2.0), leaf(m, 3.0)
    (a * 2).sum().backward(inputs=[b])
    return numbers([a.grad, b.grad])


@scenario
def backward_with_inputs_without_grad(m: Any) -> Any:
    a = leaf(m, 2.0)
    (a * 2).sum().backward(inputs=[m.ones(1)])


@scenario
def grad_does_not_touch_grad(m: Any) -> Any:
    a = leaf(m, 2.0)
    m.autograd.grad((a * a).sum(), a)
    return a.grad


@scenario
def second_order(m: Any) -> Any:
    a = leaf(m, 0.3, 0.7)
    loss = (a.exp() * a.sin()).sum() * a.prod()
    (g,) = m.autograd.grad(loss, a, create_graph=True)
    (h,) = m.autograd.grad((g * g).sum(), a, create_graph=True)
    (t,) = m.autograd.grad(h.sum(), a, create_graph=True)
    (q,) = m.autograd.grad(t.sum(), a)
    return numbers([g, h, t, q])


@scenario
def create_graph_keeps_the_graph(m: Any) -> Any:
    a = leaf(m, 2.0)
    y = (a * a).sum()
    m.autograd.grad(y, a, create_graph=True)
    return numbers(m.autograd.grad(y, a))


@scenario
def batched_gradients(m: Any) -> Any:
    a = leaf(m, 1.0, 2.0)
    y = (a * a).exp() * 0.01
    eye = m.eye(2, dtype=m.float64)
    return numbers(m.autograd.grad(y, a, eye, is_grads_batched=True))


@scenario
def functional_interface(m: Any) -> Any:
    def f(a: Any, b: Any) -> Any:
        return (a * b).sin() + a.sum()

    def g(a: Any) -> Any:
        return (a.exp() * a).sum()

    a, b = leaf(m, 0.1, 0.2).detach(), leaf(m, 0.3, 0.4).detach()
    one = m.ones(2, dtype=m.float64)
    functional = m.autograd.functional
    return numbers(
        [
            functional.jacobian(f, (a, b)),
            functional.jacobian(g, a),
            functional.hessian(g, a),
            functional.vjp(f, (a, b), one),
            functional.jvp(f, (a, b), (one, one)),
            functional.hvp(g, a, one),
            functional.vhp(g, a, one),
        ]
    )


# -- A4-A5: freeing and accumulating -----------------------------------------------------------


@scenario
def second_backward(m: Any) -> Any:
    a = leaf(m, 2.0)
    y = (a * a).sum()
    y.backward()
    y.backward()


@scenario
def second_backward_of_a_shared_part(m: Any) -> Any:
    a = leaf(m, 2.0)
    shared = a.exp()
    (shared * 2).sum().backward()
    (shared * 3).sum().backward()


@scenario
def second_backward_without_saved_values(m: Any) -> Any:
    a = leaf(m, 2.0)
    y = (a + 1).sum()
    y.backward()
    y.backward()
    return numbers(a.grad)


@scenario
def accumulation(m: Any) -> Any:
    a = leaf(m, 2.0, 3.0)
    (a * a).sum().backward()
    first = a.grad
    version = first._version
    (a * a).sum().backward()
    return first is a.grad, first._version > version, numbers(a.grad)


@scenario
def accumulation_into_an_expanded_grad(m: Any) -> Any:
    a = leaf(m, 2.0, 3.0)
    a.sum().backward()
    strides = a.grad.stride()
    a.sum().backward()
    return strides, numbers(a.grad)


@scenario
def accumulation_under_create_graph_makes_a_new_grad(m: Any) -> Any:
    a = leaf(m, 2.0)
    (a * a).sum().backward(create_graph=True)
    first = a.grad
    (a * a).sum().backward(create_graph=True)
    answer = first is a.grad, a.grad.requires_grad, numbers([first, a.grad])
    a.grad = None
    return answer


@scenario
def saved_values_of_a_node(m: Any) -> Any:
    a = leaf(m, 2.0)
    y = a * a
    before = numbers(y.grad_fn._saved_self)
    y.sum().backward()
    return before, outcome(lambda _: y.grad_fn._saved_self, m)


# -- A6: modes ---------------------------------------------------------------------------------


@scenario
def modes(m: Any) -> Any:
    a = leaf(m, 1.0)
    seen = []
    for mode in (m.no_grad(), m.enable_grad(), m.set_grad_enabled(False), m.inference_mode()):
        with mode:
            y = a * 2
            seen.append((y.requires_grad, m.is_grad_enabled(), y.is_inference()))
            with m.enable_grad():
                seen.append(((a * 2).requires_grad, m.is_grad_enabled()))
    return seen


@scenario
def inference_tensors(m: Any) -> Any:
    with m.inference_mode():
        y = m.ones(2)
        z = y.view(2)
    return [
        y.is_inference(),
        z.is_inference(),
        outcome(lambda _: y._version, m),
        outcome(lambda _: y.requires_grad_(), m),
        outcome(lambda _: y * leaf(m, 1.0), m),
        (y + 1).is_inference(),
        y.clone().is_inference(),
        y.detach().is_inference(),
        y.view(2).is_inference(),
    ]


@scenario
def creation_inside_no_grad(m: Any) -> Any:
    with m.no_grad():
        a = m.ones(2, requires_grad=True)
        b = a.clone().requires_grad_()
    return a.requires_grad, b.requires_grad, (a * b).requires_grad


# -- A8: hooks -----------------------------------------------------------------------------------


@scenario
def order_of_all_hooks(m: Any) -> Any:
    log: list[str] = []

    def note(text: str) -> Callable[..., None]:
        return lambda *_: log.append(text)

    a = leaf(m, 1.0)
    b = a * 2
    c = b * 3
    a.register_hook(note("a"))
    b.register_hook(note("b"))
    c.register_hook(note("c"))
    b.retain_grad()
    b.grad_fn.register_hook(note("b node"))
    b.grad_fn.register_prehook(note("b prenode"))
    c.grad_fn.register_hook(note("c node"))
    c.grad_fn.register_prehook(note("c prenode"))
    a.register_post_accumulate_grad_hook(note("a accumulated"))
    b.grad_fn.next_functions[0][0].register_hook(note("a node"))
    b.grad_fn.next_functions[0][0].register_prehook(note("a prenode"))
    c.sum().backward()
    return log


@scenario
def hooks_with_grad(m: Any) -> Any:
    log: list[Any] = []
    a = leaf(m, 1.0)
    b = a * 2
    a.register_hook(lambda g: log.append(("a", numbers(g))))
    b.register_hook(lambda g: log.append(("b", numbers(g))))
    a.register_post_accumulate_grad_hook(lambda t: log.append("accumulated"))
    m.autograd.grad((b * 3).sum(), [a, b])
    return log


@scenario
def node_hooks_see_none(m: Any) -> Any:
    log: list[Any] = []
    a = leaf(m, 2.0)
    b = a * m.ones(1, dtype=m.float64)
    b.grad_fn.register_hook(lambda into, out: log.append(numbers(list(into))))
    b.sum().backward()
    return log


@scenario
def hook_on_one_of_several_results(m: Any) -> Any:
    log: list[Any] = []
    a = leaf(m, 1.0, 2.0, 3.0)
    first, second = (a * 1).split([1, 2])
    second.register_hook(lambda g: log.append(numbers(g)))
    (first.sum() + second.sum()).backward()
    return log, numbers(a.grad)


@scenario
def remove_hook_while_running(m: Any) -> Any:
    log: list[str] = []
    a = leaf(m, 1.0)
    handles: list[Any] = []

    def first(grad: Any) -> None:
        log.append("first")
        handles[1].remove()

    handles.append(a.register_hook(first))
    handles.append(a.register_hook(lambda g: log.append("second")))
    (a * 1).sum().backward()
    (a * 1).sum().backward()
    return log


@scenario
def saved_tensor_hooks_count(m: Any) -> Any:
    packed: list[Any] = []
    a, b = leaf(m, 2.0), leaf(m, 3.0)
    plain = m.ones(1, dtype=m.float64)
    with m.autograd.graph.saved_tensors_hooks(
        lambda t: packed.append(numbers(t)) or t, lambda t: t
    ):
        results = [a * b, a * plain, a + b, a.exp(), a.sin(), a @ b, a.sum(), a[0], a.tanh()]
    m.autograd.grad([r.sum() for r in results], [a, b])
    return sorted(packed)  # each operation saves in an order of its own


@scenario
def graph_edge(m: Any) -> Any:
    a = leaf(m, 1.0)
    b = a * 2
    edge = m.autograd.graph.get_gradient_edge(b)
    return edge.node is b.grad_fn, edge.output_nr, numbers(m.autograd.grad((b * 3).sum(), edge))


# -- A9: custom functions --------------------------------------------------------------------------


def exponential(m: Any, *, save: str, materialize: bool = True) -> Any:
    class Exponential(m.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.exp()
            ctx.set_materialize_grads(materialize)
            ctx.save_for_backward(*{"input": [x], "output": [y], "both": [x, y]}[save])
            return y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            last = ctx.saved_tensors[-1]
            return grad * (last.exp() if save == "input" else last)

    return Exponential


@scenario
def custom_functions(m: Any) -> Any:
    found = []
    for save in ("input", "output", "both"):
        a = leaf(m, 0.5, 0.2)
        (g,) = m.autograd.grad(
            exponential(m, save=save).apply(a).sum() * a.sum(), a, create_graph=True
        )
        (gg,) = m.autograd.grad(g.sum(), a)
        found.append(numbers([g, gg]))
    return found


@scenario
def custom_function_graph(m: Any) -> Any:
    a = leaf(m, 0.5)
    y = exponential(m, save="output").apply(a * 1)
    return graph_text(y.grad_fn), y.is_leaf, y._is_view()


@scenario
def custom_function_applied_to_no_tensors(m: Any) -> Any:
    class Make(m.autograd.Function):
        @staticmethod
        def forward(ctx: Any, n: int) -> Any:
            return m.ones(n)

    y = Make.apply(3)
    return y.requires_grad, y.is_leaf


@scenario
def custom_function_writes_a_saved_tensor(m: Any) -> Any:
    a = leaf(m, 0.5) * 1
    y = exponential(m, save="input").apply(a)
    a.mul_(2)
    y.sum().backward()


@scenario
def custom_function_returning_a_list(m: Any) -> Any:
    class Pair(m.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return [x * 1, x * 2]

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0]

    return type(Pair.apply(leaf(m, 1.0))).__name__


@scenario
def custom_function_with_wrong_dtype_of_gradient(m: Any) -> Any:
    class Single(m.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad.float()

    a = leaf(m, 1.0)
    Single.apply(a).sum().backward()
    return str(a.grad.dtype).rpartition(".")[2]


@scenario
def custom_function_with_gradient_to_be_reduced(m: Any) -> Any:
    class Broadcast(m.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad.expand(3, 2)

    a = leaf(m, 1.0, 1.0)
    Broadcast.apply(a).sum().backward()
    return numbers(a.grad)


@scenario
def dirty_but_not_returned(m: Any) -> Any:
    class Odd(m.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            x.mul_(2)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    Odd.apply(leaf(m, 1.0) * 1)


@scenario
def gradcheck_verdicts(m: Any) -> Any:
    a = leaf(m, 0.5, 0.2)
    wrong = exponential(m, save="input")

    class Wrong(m.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0].exp() * 1.01

    return [
        m.autograd.gradcheck(wrong.apply, (a,)),
        m.autograd.gradgradcheck(wrong.apply, (a,)),
        m.autograd.gradcheck(Wrong.apply, (a,), raise_exception=False),
        outcome(lambda _: m.autograd.gradcheck(Wrong.apply, (a,)), m)[0],
    ]


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_scenario(name: str) -> None:
    assert outcome(SCENARIOS[name], weft) == outcome(SCENARIOS[name], torch)

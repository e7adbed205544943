"""Modules and the graph: which line and modules a node belongs to, and how long things live."""

from __future__ import annotations

import abc
import copy
import gc
import sys
import weakref
from typing import Any, Generic, TypeVar

import pytest

from .._target import weft, weft_only

nn = weft.nn
T = TypeVar("T")


class Inner(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        y = self.linear(x)
        return y.relu()


class Outer(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(Inner(), nn.Tanh())

    def forward(self, x: Any) -> Any:
        return self.layers(x)


def line_of(function: Any, text: str) -> int:
    """The line of this file that holds `text` in a function."""
    import inspect

    lines, start = inspect.getsourcelines(function)
    return start + next(i for i, line in enumerate(lines) if text in line)


@weft_only
def test_nodes_belong_to_the_users_line_and_to_their_modules() -> None:
    net = Outer()
    tanh = net(weft.ones(1, 2)).grad_fn
    relu = tanh.next_functions[0][0]
    linear = relu.next_functions[0][0]
    inner = net.layers[0]
    assert tanh.scope == (net, net.layers, net.layers[1])
    assert relu.scope == (net, net.layers, inner)
    assert linear.scope == (net, net.layers, inner, inner.linear)
    # A layer of weft's is told by the line that calls it; a user's own, by the line inside.
    assert tanh.site[1] == line_of(Outer.forward, "self.layers(x)")
    assert relu.site[1] == line_of(Inner.forward, "y.relu()")
    assert linear.site[1] == line_of(Inner.forward, "self.linear(x)")
    outside = (weft.ones(1, requires_grad=True) * 2).grad_fn
    assert outside.scope == ()


@weft_only
def test_the_scope_is_left_when_forward_raises() -> None:
    class Raises(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        nn.Sequential(Raises())(1)
    assert (weft.ones(1, requires_grad=True) * 2).grad_fn.scope == ()


@weft_only
def test_a_node_does_not_keep_its_module_alive() -> None:
    layer = nn.Linear(2, 2)
    gone = weakref.ref(layer)
    node = layer(weft.ones(1, 2)).grad_fn
    del layer
    assert gone() is None
    assert node.scope in ((), (None,))


def test_modules_are_freed_at_once_and_in_cycles() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    gone = weakref.ref(net[0])
    del net
    assert gone() is None
    net = Outer()
    net.itself = [net]  # a cycle through a plain attribute
    gone = weakref.ref(net.layers)
    del net
    gc.collect()
    assert gone() is None


def test_calls_do_not_leak_references() -> None:
    layer = nn.Identity()
    argument = object()
    before = sys.getrefcount(argument), sys.getrefcount(layer)
    for _ in range(100):
        layer(argument)
        layer(input=argument)
        layer.__call__(argument)
        layer.training = True
        assert layer.training
    assert (sys.getrefcount(argument), sys.getrefcount(layer)) == before
    value = weft.ones(1)
    before_value = sys.getrefcount(value)
    for _ in range(100):
        layer.plain = value
        layer.plain = None
        with pytest.raises(AttributeError):
            layer.missing  # noqa: B018
    assert sys.getrefcount(value) == before_value


def test_many_nested_modules() -> None:
    net: Any = nn.Identity()
    for _ in range(150):
        net = nn.Sequential(net)
    x = weft.ones(1)
    assert net(x) is x
    assert len(list(net.modules())) == 151
    copy.deepcopy(net)


@weft_only
def test_hooks_put_into_the_dictionary_by_hand_are_run() -> None:
    for put in (
        lambda m, hooks: m.__dict__.update(_forward_hooks=hooks),
        lambda m, hooks: setattr(m, "_forward_hooks", hooks),
        lambda m, hooks: m._forward_hooks.update(hooks),
        lambda m, hooks: m.__setstate__({"_forward_hooks": hooks}),
    ):
        layer = nn.Identity()
        assert layer(1) == 1
        put(layer, {1: lambda m, args, out: out + 1})
        assert layer(1) == 2
        layer._forward_hooks.clear()
        assert layer(1) == 1


@weft_only
def test_a_mapping_of_ones_own_may_compute_parameters() -> None:
    class Computed(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            return super().__getitem__(name), "computed"

    layer = nn.Linear(1, 1)
    layer._parameters = Computed(layer._parameters)
    assert layer.weight[1] == "computed"


def test_keyword_calls_and_many_arguments() -> None:
    class Takes(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return args, kwargs

    takes = Takes()
    assert takes() == ((), {})
    assert takes(*range(50), key=1) == (tuple(range(50)), {"key": 1})
    assert takes(**{str(i): i for i in range(20)})[1] == {str(i): i for i in range(20)}


def test_abstract_modules_and_other_bases() -> None:
    class Abstract(nn.Module, abc.ABC):  # type: ignore[misc, name-defined]
        @abc.abstractmethod
        def forward(self, x: Any) -> Any: ...

    class Concrete(Abstract, Generic[T]):
        def forward(self, x: Any) -> Any:
            return x + 1

    with pytest.raises(TypeError, match="abstract method"):
        Abstract()
    assert Concrete[int]()(1) == 2


def test_calls_can_be_patched_for_all_modules() -> None:
    seen = []
    original = nn.Module.__call__

    def watched(module: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(type(module).__name__)
        return original(module, *args, **kwargs)

    net = nn.Sequential(nn.ReLU(), nn.Tanh())
    nn.Module.__call__ = watched
    try:
        net(weft.ones(1))
    finally:
        nn.Module.__call__ = original
    net(weft.ones(1))
    assert seen == ["Sequential", "ReLU", "Tanh"]


def test_batched_walks_follow_overridden_named_modules() -> None:
    class Hidden(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inside = nn.Linear(1, 1)

        def named_modules(self, memo: Any = None, prefix: str = "", *rest: Any) -> Any:
            yield prefix, self  # and nothing below

    net = nn.Sequential(Hidden(), nn.Linear(1, 1))
    assert len(list(net.parameters())) == 2
    assert [n for n, _ in net.named_parameters()] == ["1.weight", "1.bias"]


def test_a_model_that_grows_while_it_trains() -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    x = weft.ones(1, 2)
    for step in range(3):
        net(x).sum().backward()
        assert all(p.grad is not None for p in net.parameters())
        net.zero_grad()
        net.append(nn.Linear(2, 2))
        assert len(list(net.parameters())) == 2 * (step + 2)

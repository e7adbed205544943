"""Subclasses of Tensor and other classes that take part in operations: `__torch_function__`."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from ._target import IS_WEFT, weft


class Plain(weft.Tensor):
    """A subclass that says nothing about operations."""


class Derived(Plain):
    """A subclass of it."""


class Other(weft.Tensor):
    """One that has nothing to do with them."""


class Logged(weft.Tensor):
    """One that writes down what it is asked."""

    asked: list[tuple[str, tuple[str, ...]]] = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.asked.append((func.__name__, tuple(t.__name__ for t in types)))
        return super().__torch_function__(func, types, args, kwargs or {})


class Declining(weft.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented


class Duck:
    """No tensor at all."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func.__name__, len(args)


def make(cls: Any) -> Any:
    return weft.ones(2).as_subclass(cls)


@pytest.fixture
def asked() -> Iterator[list[tuple[str, tuple[str, ...]]]]:
    Logged.asked.clear()
    yield Logged.asked
    Logged.asked.clear()


RESULTS = {
    "operator": lambda x: x + 1,
    "reflected": lambda x: 1 - x,
    "method": lambda x: x.exp(),
    "function": lambda x: weft.exp(x),
    "composed": lambda x: weft.nn.functional.relu(x),
    "indexed": lambda x: x[0],
    "in a list": lambda x: weft.cat([weft.ones(1), x]),
    "detached": lambda x: x.detach(),
    "data": lambda x: x.data,
    "transposed": lambda x: x.view(2, 1).T,
    "second argument": lambda x: weft.ones(2) * x,
    "comparison": lambda x: x == x,
    "reduction": lambda x: x.sum(),
    "in place": lambda x: x.add_(1),
    "iterated": lambda x: next(iter(x)),
    "copied": lambda x: copy.copy(x),
    "pickled": lambda x: pickle.loads(pickle.dumps(x)),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_results_are_of_the_subclass(kind: str) -> None:
    assert type(RESULTS[kind](make(Plain))) is Plain


def test_several_results() -> None:
    x = weft.arange(4.0).reshape(2, 2).as_subclass(Plain)
    for several in (x.unbind(), weft.split(x, 1), x.max(0)):
        assert {type(one) for one in several} == {Plain}
    assert type(x.max(0)) is type(weft.ones(2, 2).max(0))
    assert x.max(0).values.tolist() == [2.0, 3.0]


def test_the_derived_class_wins() -> None:
    assert type(make(Plain) + make(Derived)) is Derived
    assert type(make(Derived) + make(Plain)) is Derived
    with pytest.raises(TypeError, match="unsupported operand"):
        make(Plain) + make(Other)


def test_what_is_asked(asked: list[tuple[str, tuple[str, ...]]]) -> None:
    x = make(Logged)
    for call, name in (
        (lambda: x + 1, "add"),
        (lambda: 1 + x, "add"),
        (lambda: x @ x, "matmul"),
        (lambda: weft.exp(x), "exp"),
        (lambda: x.exp(), "exp"),
        (lambda: weft.cat([x, x]), "cat"),
        (lambda: x[0], "__getitem__"),
        (lambda: weft.nn.functional.relu(x), "relu"),
        (lambda: weft.where(x > 0, x, 0.0), "where"),
    ):
        asked.clear()
        assert type(call()) is Logged
        assert asked[-1] == (name, ("Logged",))
    asked.clear()
    x[0] = 2
    assert asked == [("__setitem__", ("Logged",))]


def test_gradients_flow_through_subclasses() -> None:
    x = make(Plain).requires_grad_()
    x.unit = "m"
    y = (x * 3).exp().sum()
    assert y.requires_grad
    y.backward()
    assert x.grad.tolist() == pytest.approx([60.2566, 60.2566])
    assert x.unit == "m"


def test_declining_classes() -> None:
    x = make(Declining)
    with pytest.raises(TypeError, match="unsupported operand"):
        x + 1
    with pytest.raises(TypeError, match=r"Multiple dispatch failed for 'torch\.exp'"):
        weft.exp(x)


def test_classes_that_are_no_tensors() -> None:
    duck = Duck()
    assert weft.exp(duck) == ("exp", 1)
    assert weft.add(weft.ones(2), duck) == ("add", 2)
    assert weft.cat([weft.ones(1), duck]) == ("cat", 1)


def test_parameters_are_no_such_class() -> None:
    p = weft.nn.Parameter(weft.ones(2))
    assert type(p + 1) is weft.Tensor
    assert type(p + make(Plain)) is Plain


def test_attributes_of_subclasses_travel() -> None:
    x = make(Plain)
    x.unit = {"of": "length"}
    for other in (pickle.loads(pickle.dumps(x)), copy.copy(x)):
        assert type(other) is Plain
        assert other.unit == {"of": "length"}
    if IS_WEFT:  # PyTorch asks such a class for a new_empty() of its own
        deep = copy.deepcopy(x)
        assert deep.unit == x.unit
        assert deep.unit is not x.unit


def test_objects_come_back_from_the_graph_again_and_again() -> None:
    x = make(Plain).requires_grad_()
    x.unit = "m"
    node = (x * 2).sum().grad_fn
    del x
    for _ in range(3):
        gc.collect()
        leaf = node
        while leaf.next_functions:
            leaf = leaf.next_functions[0][0]
        assert type(leaf.variable) is Plain
        assert leaf.variable.unit == "m"


def test_switching_off(asked: list[tuple[str, tuple[str, ...]]]) -> None:
    if not IS_WEFT:
        pytest.skip("in PyTorch this stands in torch._C")
    x = make(Logged)
    with weft.overrides.DisableTorchFunctionSubclass():
        assert type(x + 1) is weft.Tensor
    assert asked == []
    assert weft.overrides.has_torch_function((1, x))
    assert not weft.overrides.has_torch_function((1, weft.nn.Parameter(weft.ones(1))))
    assert weft.overrides.is_tensor_like(Duck())

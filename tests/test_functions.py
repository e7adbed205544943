"""Custom functions: `weft.autograd.Function` in all its variants."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from ._target import weft

Function = weft.autograd.Function


def leaf(*values: float) -> Any:
    return weft.tensor(list(values), dtype=weft.float64, requires_grad=True)


class Square(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def test_forward_and_backward() -> None:
    x = leaf(3.0, -1.0)
    y = Square.apply(x)
    assert y.tolist() == [9.0, 1.0]
    assert y.grad_fn.name() == "SquareBackward"
    assert repr(y.grad_fn).startswith("<")
    assert "SquareBackward" in repr(y)
    y.sum().backward()
    assert x.grad.tolist() == [6.0, -2.0]


def test_double_backward_comes_by_itself() -> None:
    x = leaf(3.0)
    (g,) = weft.autograd.grad(Square.apply(Square.apply(x)).sum(), x, create_graph=True)
    assert g.tolist() == [4 * 27.0]
    assert weft.autograd.grad(g.sum(), x)[0].tolist() == [12 * 9.0]


def test_without_gradient_nothing_is_recorded() -> None:
    assert Square.apply(weft.ones(2)).grad_fn is None
    with weft.no_grad():
        assert not Square.apply(leaf(1.0)).requires_grad


def test_forward_runs_without_recording() -> None:
    seen = []

    class Look(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * 2
            seen.append((weft.is_grad_enabled(), y.requires_grad))
            return y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            seen.append((weft.is_grad_enabled(), grad.requires_grad))
            return grad * 2

    Look.apply(leaf(1.0)).sum().backward()
    assert seen == [(False, False), (False, False)]


def test_setup_context() -> None:
    class Scaled(Function):
        @staticmethod
        def forward(x: Any, factor: float) -> Any:
            return x * factor, x + factor

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            x, factor = inputs
            first, second = output
            assert first.shape == second.shape == x.shape
            ctx.factor = factor

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            return first * ctx.factor + second, None

    x = leaf(1.0, 2.0)
    a, b = Scaled.apply(x, 5.0)
    (a * 10 + b).sum().backward()
    assert x.grad.tolist() == [51.0, 51.0]


def test_non_tensor_arguments_and_results() -> None:
    class Mixed(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, name: str, options: dict[str, int]) -> Any:
            ctx.power = options["power"]
            ctx.save_for_backward(x)
            return x**ctx.power, name.upper()

        @staticmethod
        def backward(ctx: Any, grad: Any, nothing: Any) -> Any:
            assert nothing is None
            (x,) = ctx.saved_tensors
            return grad * ctx.power * x ** (ctx.power - 1), None, None

    x = leaf(2.0)
    y, name = Mixed.apply(x, "cube", {"power": 3})
    assert name == "CUBE"
    y.sum().backward()
    assert x.grad.tolist() == [12.0]


def test_needs_input_grad() -> None:
    seen = []

    class Product(Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any, c: int) -> Any:
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            seen.append(tuple(ctx.needs_input_grad))
            a, b = ctx.saved_tensors
            return (
                grad * b if ctx.needs_input_grad[0] else None,
                grad * a if ctx.needs_input_grad[1] else None,
                None,
            )

    a, b = leaf(2.0), weft.tensor([3.0], dtype=weft.float64)
    Product.apply(a, b, 7).sum().backward()
    assert seen == [(True, False, False)]
    assert a.grad.tolist() == [3.0]


def test_missing_gradients_are_zeros_or_none() -> None:
    seen: list[Any] = []

    class Two(Function):
        materialize = True

        @staticmethod
        def forward(ctx: Any, x: Any, materialize: bool) -> Any:
            ctx.set_materialize_grads(materialize)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            seen.append(second if second is None else second.tolist())
            return first, None

    x = leaf(1.0, 2.0)
    for materialize in (True, False):
        Two.apply(x, materialize)[0].sum().backward()
    assert seen == [[0.0, 0.0], None]


def test_mark_non_differentiable() -> None:
    class Sorted(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            values, order = x.sort()
            ctx.mark_non_differentiable(order)
            ctx.save_for_backward(order)
            return values, order

        @staticmethod
        def backward(ctx: Any, grad: Any, order_grad: Any) -> Any:
            (order,) = ctx.saved_tensors
            return weft.zeros_like(grad).index_add(0, order, grad)

    x = leaf(3.0, 1.0, 2.0)
    values, order = Sorted.apply(x)
    assert values.requires_grad
    assert not order.requires_grad
    (values * weft.arange(3, dtype=weft.float64)).sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 1.0]


def test_mark_dirty() -> None:
    class AddInPlace(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 7

    x = leaf(1.0, 2.0)
    y = x * 1
    before = y._version
    z = AddInPlace.apply(y)
    assert z is y
    assert y._version > before
    assert y.grad_fn.name() == "AddInPlaceBackward"
    z.sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]
    with pytest.raises(RuntimeError, match="leaf"):
        AddInPlace.apply(x)


def test_mark_dirty_through_a_view() -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    x = leaf(1.0, 2.0)
    y = x.clone()
    Double.apply(y[:1])
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 1.0]


def test_returning_an_input_gives_a_view_of_it() -> None:
    class Same(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 3

    x = leaf(1.0)
    y = Same.apply(x)
    assert y is not x
    assert y.data_ptr() == x.data_ptr()
    y.sum().backward()
    assert x.grad.tolist() == [3.0]


def test_returned_views_must_not_be_written_to() -> None:
    class First(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x[:1]

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return weft.cat([grad * 3, grad * 0])

    x = leaf(1.0, 2.0) * 1
    y = First.apply(x)
    assert y._is_view()
    assert y._base is x
    with pytest.raises(RuntimeError, match="inside a custom Function"):
        y.mul_(2)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="inside a custom Function"):
        _ = y.grad_fn


def test_without_gradient_an_input_comes_back_as_a_view() -> None:
    class Same(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

    x = weft.ones(2)
    y = Same.apply(x)
    assert y is not x
    assert y._base is x
    y.mul_(2)
    assert x.tolist() == [2.0, 2.0]
    with weft.no_grad():
        assert not Same.apply(leaf(1.0)).requires_grad


def test_saving_results() -> None:
    class Exp(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (y,) = ctx.saved_tensors
            return grad * y

    x = leaf(0.5)
    y = Exp.apply(x)
    (g,) = weft.autograd.grad(y.sum(), x, create_graph=True)
    assert g.tolist() == y.tolist()
    (gg,) = weft.autograd.grad(g.sum(), x)
    assert gg.tolist() == pytest.approx(y.tolist())


def test_saved_results_do_not_keep_themselves_alive() -> None:
    class Exp(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0]

    x = leaf(0.5)
    y = Exp.apply(x)
    watch = weakref.ref(y)
    gc.disable()
    try:
        del y
        assert watch() is None
    finally:
        gc.enable()


def test_saved_tensors_are_checked_for_overwriting() -> None:
    x = leaf(1.0) * 1
    y = Square.apply(x)
    x.add_(1)
    with pytest.raises(RuntimeError, match=r"in-?place"):
        y.sum().backward()


def test_save_for_backward_takes_none_and_nothing_else() -> None:
    class Optional(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, bias: Any) -> Any:
            ctx.save_for_backward(x, bias)
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            assert ctx.saved_tensors[1] is None
            return grad, None

    Optional.apply(leaf(1.0), None).sum().backward()

    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward("text")
            return x * 1

    with pytest.raises(TypeError):
        Wrong.apply(leaf(1.0))


def test_saved_values_go_with_the_graph() -> None:
    x = leaf(1.0)
    y = Square.apply(x)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_once_differentiable() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @weft.autograd.function.once_differentiable
        def backward(ctx: Any, grad: Any) -> Any:
            assert not weft.is_grad_enabled()
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    x = leaf(3.0)
    assert weft.autograd.grad(Once.apply(x).sum(), x)[0].tolist() == [6.0]
    # Squared, so that the gradient that reaches the function is itself differentiable.
    (g,) = weft.autograd.grad((Once.apply(x) ** 2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_wrong_number_of_gradients() -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            return a + b

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    with pytest.raises(RuntimeError, match="gradients"):
        Wrong.apply(leaf(1.0), leaf(1.0)).sum().backward()


def test_extra_none_gradients_are_fine() -> None:
    class Extra(Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, None, None

    x = leaf(1.0)
    Extra.apply(x).sum().backward()
    assert x.grad.tolist() == [1.0]


def test_wrong_shape_of_gradient() -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return weft.ones(5, dtype=weft.float64)

    with pytest.raises(RuntimeError, match="shape"):
        Wrong.apply(leaf(1.0, 2.0)).sum().backward()


def test_gradient_for_a_non_tensor() -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, a: Any, k: int) -> Any:
            return a * k

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, grad

    with pytest.raises(RuntimeError):
        Wrong.apply(leaf(1.0), 2).sum().backward()


def test_backward_missing() -> None:
    class Half(Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * 1

    y = Half.apply(leaf(1.0))
    with pytest.raises(NotImplementedError):
        y.sum().backward()


def test_exceptions_come_through_both_ways() -> None:
    class Special(Exception):
        pass

    class Fails(Function):
        @staticmethod
        def forward(ctx: Any, a: Any, where: str) -> Any:
            if where == "forward":
                raise Special("forward")
            return a * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            raise Special("backward")

    with pytest.raises(Special, match="forward"):
        Fails.apply(leaf(1.0), "forward")
    y = Fails.apply(leaf(1.0), "backward")
    with pytest.raises(Special, match="backward"):
        y.sum().backward()
    x = leaf(1.0)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_classes_inherit_and_keep_attributes() -> None:
    class Base(Function):
        factor = 2.0

        @classmethod
        def scale(cls) -> float:
            return cls.factor

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.scale_used

    class Derived(Base):
        factor = 5.0

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.scale_used = Derived.scale()
            return x * ctx.scale_used

    x = leaf(1.0)
    y = Derived.apply(x)
    assert y.grad_fn.name() == "DerivedBackward"
    y.sum().backward()
    assert x.grad.tolist() == [5.0]


def test_the_context_is_the_node() -> None:
    class Tag(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.tag = "kept"
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    y = Tag.apply(leaf(1.0))
    assert y.grad_fn.tag == "kept"


def test_attributes_of_the_node_are_those_of_the_context() -> None:
    y = Square.apply(leaf(3.0))
    assert y.grad_fn.needs_input_grad == (True,)
    assert [t.tolist() for t in y.grad_fn.saved_tensors] == [[3.0]]
    y.grad_fn.note = "mine"
    assert y.grad_fn.note == "mine"
    with pytest.raises(AttributeError):
        _ = y.grad_fn.nothing
    y.backward()
    with pytest.raises(RuntimeError, match="freed"):
        _ = y.grad_fn.saved_tensors


def test_a_context_that_holds_its_result_is_collected() -> None:
    class Keeps(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.result = x * 2
            return ctx.result

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    y = Keeps.apply(leaf(1.0))
    watch = weakref.ref(y)
    del y
    gc.collect()
    assert watch() is None


def test_a_function_hears_that_there_is_no_gradient() -> None:
    seen = []

    class Listens(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            seen.append(grad.tolist())
            return grad

    class Silent(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return None

    x = leaf(1.0)
    Silent.apply(Listens.apply(x) * 2).backward()
    assert seen == [[0.0]]
    assert x.grad.tolist() == [0.0]


def test_vjp_is_another_name_for_backward() -> None:
    class Named(Function):
        @staticmethod
        def forward(x: Any, factor: float = 3.0) -> Any:
            return x * factor

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            _, ctx.factor = inputs

        @staticmethod
        def vjp(ctx: Any, grad: Any) -> Any:
            return grad * ctx.factor, None

    x = leaf(1.0)
    Named.apply(x).backward()
    Named.apply(x, factor=4.0).backward()
    assert x.grad.tolist() == [7.0]


def test_several_results_and_unused_ones() -> None:
    class Split(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1, x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any, c: Any) -> Any:
            return a + 2 * b + 3 * c

    x = leaf(1.0)
    a, b, c = Split.apply(x)
    assert a.grad_fn is b.grad_fn is c.grad_fn
    assert [t.output_nr for t in (a, b, c)] == [0, 1, 2]
    (a + c).sum().backward()
    assert x.grad.tolist() == [4.0]


def test_integer_results_carry_no_gradient() -> None:
    class Bucket(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.long(), x * 2

        @staticmethod
        def backward(ctx: Any, ints: Any, floats: Any) -> Any:
            return floats * 2

    x = leaf(1.5)
    ints, floats = Bucket.apply(x)
    assert not ints.requires_grad
    floats.sum().backward()
    assert x.grad.tolist() == [2.0]


def test_saved_tensors_hooks_reach_custom_functions() -> None:
    packed = []

    def pack(value: Any) -> Any:
        packed.append(value)
        return value

    x = leaf(3.0)
    with weft.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        y = Square.apply(x)
    assert len(packed) == 1
    y.sum().backward()
    assert x.grad.tolist() == [6.0]


def test_double_backward_of_a_pair_written_by_hand() -> None:
    class CubeBackward(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, grad: Any) -> Any:
            ctx.save_for_backward(x, grad)
            return 3 * x * x * grad

        @staticmethod
        def backward(ctx: Any, gg: Any) -> Any:
            x, grad = ctx.saved_tensors
            return 6 * x * grad * gg, 3 * x * x * gg

    class Cube(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return CubeBackward.apply(x, grad)

    x = leaf(1.3)
    current = Cube.apply(x).sum()
    for expected in (3 * 1.3**2, 6 * 1.3, 6.0):
        (current,) = weft.autograd.grad(current, x, create_graph=True)
        assert current.item() == pytest.approx(expected)


def test_nested_apply() -> None:
    class Outer(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            with weft.enable_grad():
                inner_leaf = x.detach().requires_grad_()
                inner = Square.apply(inner_leaf)
            ctx.inner, ctx.inner_leaf = inner, inner_leaf
            return inner.detach()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return weft.autograd.grad(ctx.inner, ctx.inner_leaf, grad)[0]

    x = leaf(4.0)
    Outer.apply(x).sum().backward()
    assert x.grad.tolist() == [8.0]


def test_inplace_on_one_of_several_view_results_is_refused() -> None:
    class Pieces(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x[:1], x[1:]

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            return weft.cat([a, b])

    first, _ = Pieces.apply(leaf(1.0, 2.0) * 1)
    with pytest.raises(RuntimeError):
        first.add_(1)

"""`gradcheck` catches planted wrong derivatives, passes right ones, and says what is wrong."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests._target import IS_WEFT, weft
from tests.planted_derivatives import PLANTED, Planted


def load_checker() -> ModuleType:
    """weft's gradcheck, whatever library it is to run over."""
    if IS_WEFT:
        return importlib.import_module("weft.autograd.gradcheck")
    sys.modules["weft"] = weft
    try:
        for name in ("weft.autograd._jacobians", "weft.autograd.gradcheck"):
            source = Path(__file__).parents[1].joinpath(*name.split(".")).with_suffix(".py")
            spec = importlib.util.spec_from_file_location(name, source)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
        return module
    finally:
        for name in ("weft", "weft.autograd._jacobians", "weft.autograd.gradcheck"):
            sys.modules.pop(name, None)


checker = load_checker()
gradcheck, gradgradcheck = checker.gradcheck, checker.gradgradcheck
GradcheckError = checker.GradcheckError

MODES = pytest.mark.parametrize("fast", [False, True], ids=["full", "fast"])
EVERY_PLANT = pytest.mark.parametrize("planted", PLANTED, ids=lambda p: f"{p.kind}: {p.name}")


def doubles(*shape: int, grad: bool = True) -> Any:
    count = 1
    for length in shape:
        count *= length
    values = [0.2 + (0.618034 * (k + 1)) % 1 for k in range(count)]
    return weft.tensor(values, dtype=weft.float64).reshape(shape).requires_grad_(grad)


def message_of(func: Any, inputs: Any, **options: Any) -> str:
    with pytest.raises(GradcheckError) as caught:
        gradcheck(func, inputs, **options)
    assert gradcheck(func, inputs, raise_exception=False, **options) is False
    return str(caught.value)


def own_function(forward: Any, backward: Any) -> Any:
    class Own(weft.autograd.Function):
        pass

    Own.forward = staticmethod(forward)
    Own.backward = staticmethod(backward)
    return Own.apply


@MODES
@EVERY_PLANT
def test_wrong_derivatives_are_caught(planted: Planted, fast: bool) -> None:
    message = message_of(planted.function(planted.wrong), planted.inputs(), fast_mode=fast)
    assert "Jacobian mismatch for output 0 with respect to input" in message


@MODES
@EVERY_PLANT
def test_right_derivatives_pass(planted: Planted, fast: bool) -> None:
    assert gradcheck(planted.function(planted.right), planted.inputs(), fast_mode=fast)


def test_there_are_enough_plants() -> None:
    assert len(PLANTED) >= 40
    assert len({planted.name for planted in PLANTED}) == len(PLANTED)


RIGHT = {
    "chain": (lambda x: (x.sin() * x.exp()).tanh(), (doubles(3, 2),)),
    "matrix product": (lambda a, b: a @ b, (doubles(2, 3), doubles(3, 2))),
    "two outputs": (lambda x: (x.sum(0), x * x), (doubles(2, 3),)),
    "unused input": (lambda x, y: x * 2, (doubles(2), doubles(3))),
    "held fixed": (lambda x, y: x * y, (doubles(2), doubles(2, grad=False))),
    "other arguments": (lambda x, power: x**power, (doubles(3), 3)),
    "number": (lambda x: x.log(), (doubles(),)),
    "empty": (lambda x: x * 2, (doubles(0, 3),)),
    "broadcast": (lambda x, y: x / y, (doubles(2, 1), doubles(3))),
    "constant output beside": (lambda x: (x * x, x.detach()), (doubles(3),)),
    "integer output beside": (lambda x: (x.max(0)[0], x.argmax(0)), (doubles(3, 2),)),
    "the input itself": (lambda x: x, (doubles(3),)),
    "twice the same": (lambda x, y: x * y, (doubles(3),) * 2),
}


@MODES
@pytest.mark.parametrize("case", RIGHT)
def test_autograd_passes(case: str, fast: bool) -> None:
    func, inputs = RIGHT[case]
    before = [value.tolist() for value in inputs if isinstance(value, weft.Tensor)]
    assert gradcheck(func, inputs, fast_mode=fast, check_grad_dtypes=True)
    after = [value.tolist() for value in inputs if isinstance(value, weft.Tensor)]
    assert before == after
    assert inputs[0].grad is None


@MODES
@pytest.mark.parametrize("case", [case for case in RIGHT if case != "empty"])
def test_second_derivatives_pass(case: str, fast: bool) -> None:
    func, inputs = RIGHT[case]
    assert gradgradcheck(func, inputs, fast_mode=fast)
    assert gradgradcheck(func, inputs, fast_mode=fast, gen_non_contig_grad_outputs=True)


def test_a_wrong_second_derivative_is_caught() -> None:
    class Square(weft.autograd.Function):
        """Its gradient is right, but recorded as if it did not depend on x."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * gradient * x.detach()

    x = doubles(3)
    assert gradcheck(Square.apply, x)
    with pytest.raises(GradcheckError, match="zero throughout"):
        gradgradcheck(Square.apply, x)
    assert gradgradcheck(Square.apply, x, raise_exception=False) is False
    assert gradgradcheck(lambda t: t * t, x, doubles(3))


def test_the_message_names_the_element_and_the_amount() -> None:
    def backward(ctx: Any, gradient: Any) -> Any:
        result = gradient.clone()
        result[1, 2] = result[1, 2] * 1.5
        return None, result

    def forward(ctx: Any, a: Any, b: Any) -> Any:
        return b * 1.0

    message = message_of(own_function(forward, backward), (doubles(2), doubles(2, 3)))
    assert "output 0 with respect to input 1 (backward mode): 1 of 36 entries differ" in message
    assert "d(output 0[1, 2]) / d(input 1[1, 2]): numerical 1" in message
    assert "analytical 1.5, difference 0.5, allowed 0.00101" in message
    assert "kink" not in message


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("neg", "opposite sign"),
        ("square", "Every entry is 0.5 times what it should be"),
        ("transpose", "the transpose of the numerical one: look for mixed axes"),
        ("exponent of a power", "zero throughout: a path through the graph is missing"),
    ],
)
def test_the_message_says_what_the_wrong_entries_share(name: str, phrase: str) -> None:
    planted = next(planted for planted in PLANTED if planted.name == name)
    message = message_of(planted.function(planted.wrong), planted.inputs())
    if name == "transpose":  # a permutation of all elements: its Jacobian is its own transpose
        assert "6 of 81 entries" in message or "12 of 81 entries" in message
    else:
        assert phrase in message


def test_a_transposed_jacobian_is_recognised() -> None:
    matrix = doubles(3, 3, grad=False)
    wrong = own_function(lambda ctx, x: matrix @ x, lambda ctx, g: matrix @ g)
    assert "the transpose of the numerical one" in message_of(wrong, doubles(3))


@MODES
@pytest.mark.parametrize("offset", [0.0, 3e-7])
def test_a_kink_is_named(offset: float, fast: bool) -> None:
    x = weft.tensor([1.0, offset, -1.0], dtype=weft.float64, requires_grad=True)
    message = message_of(lambda t: t.relu(), x, fast_mode=fast)
    assert "d(output 0[1]) / d(input 0[1])" in message
    assert f"{offset / 1e-6:.6g} from below, 1 from above" in message
    assert "explains the mismatch: move the point" in message


def test_a_kink_is_no_excuse_for_a_wrong_derivative() -> None:
    wrong = own_function(lambda ctx, x: x.relu(), lambda ctx, g: 7 * g)
    x = weft.tensor([0.0], dtype=weft.float64, requires_grad=True)
    assert "too small to explain the mismatch" in message_of(wrong, x)


def test_a_steep_but_smooth_function_has_no_kink() -> None:
    wrong = own_function(
        lambda ctx, x: (50 * x).sin(),
        lambda ctx, g: 40 * g,
    )
    assert "kink" not in message_of(wrong, doubles(3))


@MODES
def test_a_wrong_element_does_not_hide_in_a_large_jacobian(fast: bool) -> None:
    """One entry of 10,000 x 10,000 off by 2%: PyTorch's fast mode once let such pass."""
    planted = next(p for p in PLANTED if p.name == "the last of a matrix")
    size = 100 if fast else 10
    x = doubles(size, size)
    func = planted.function(planted.wrong)
    message = message_of(func, x, fast_mode=fast, check_undefined_grad=False)
    assert "Jacobian mismatch for output 0 with respect to input 0" in message
    assert gradcheck(planted.function(planted.right), x, fast_mode=fast)


def test_fast_mode_leaves_doubt_to_the_full_check() -> None:
    """Moving all elements at once reorders a sort of close values; single moves do not matter."""
    x = weft.tensor([1.0 + 2.5e-6 * k for k in range(6)], dtype=weft.float64, requires_grad=True)
    assert gradcheck(lambda t: (t * t).sort()[0], x)
    assert gradcheck(lambda t: (t * t).sort()[0], x, fast_mode=True)


@MODES
def test_a_cut_graph_is_found(fast: bool) -> None:
    message = message_of(lambda x: x.detach() * 3, doubles(2), fast_mode=fast)
    assert "expected to be zero" in message and "derivatives up to 3" in message
    assert gradcheck(lambda x: weft.ones(2), doubles(2), fast_mode=fast)
    with pytest.raises(GradcheckError, match="No output requires grad"):
        gradgradcheck(lambda x: x.detach() * 3, doubles(2))


@MODES
def test_a_backward_that_changes_is_found(fast: bool) -> None:
    calls = []

    def backward(ctx: Any, gradient: Any) -> Any:
        calls.append(1)
        return gradient * (1 + 1e-9 * len(calls))

    unsteady = own_function(lambda ctx, x: x * 1.0, backward)
    assert "not reentrant" in message_of(unsteady, doubles(3), fast_mode=fast)
    assert gradcheck(unsteady, doubles(3), fast_mode=fast, nondet_tol=1e-5,
                     check_undefined_grad=False)  # fmt: skip


def test_a_function_that_changes_is_found() -> None:
    calls = []

    def unsteady(x: Any) -> Any:
        calls.append(1)
        return x * (1 + 0.01 * len(calls))

    assert "two calls with the same inputs differ" in message_of(unsteady, doubles(3))


def test_undefined_gradients() -> None:
    class Pair(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            present = [g * k for g, k in ((first, 2), (second, 3)) if g is not None]
            return sum(present[1:], present[0])

    message = message_of(Pair.apply, doubles(2))
    assert "handle undefined output grads" in message
    assert "with no gradient for output 0, output 1 it raised IndexError" in message
    assert gradcheck(Pair.apply, doubles(2), check_undefined_grad=False)


def test_gradients_of_the_wrong_dtype() -> None:
    x = doubles(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = doubles(3).detach().to(weft.float32).requires_grad_()
        options = {"eps": 1e-2, "atol": 1e-2}
        assert gradcheck(lambda a, b: a * b, (x, y), check_grad_dtypes=True, **options)


def test_coarse_inputs_are_warned_about() -> None:
    x = weft.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match=r"input 0 .*float32, not double precision"):
        assert gradcheck(lambda t: t * 3, x, eps=1e-2, atol=1e-3)
    with (
        pytest.warns(UserWarning, match="will likely fail"),
        pytest.raises(GradcheckError, match="too small for input 0"),
    ):
        gradcheck(lambda t: t * 3, x, eps=1e-9)


def test_inputs_that_share_memory_are_refused() -> None:
    expanded = doubles(3).detach().expand(2, 3).requires_grad_()
    with pytest.raises(RuntimeError, match=r"Input 0 has elements that share memory"):
        gradcheck(lambda x: x * 2, expanded)
    base = doubles(4, grad=False)
    first, second = base[:3].detach().requires_grad_(), base[2:].detach().requires_grad_()
    with pytest.raises(RuntimeError, match="Inputs 0 and 1 share memory"):
        gradcheck(lambda a, b: a.sum() * b.sum(), (first, second))
    even, odd = base[::2].detach().requires_grad_(), base[1::2].detach().requires_grad_()
    assert gradcheck(lambda a, b: a * b, (even, odd))


@MODES
def test_non_contiguous_inputs(fast: bool) -> None:
    x = doubles(3, 4).detach().t().requires_grad_()
    strided = doubles(6).detach()[::2].requires_grad_()
    assert gradcheck(lambda a, b: (a * a) @ b, (x, strided), fast_mode=fast)


def test_functions_that_hold_their_inputs() -> None:
    weight = doubles(2, 3)
    assert gradcheck(lambda x, w: x @ weight, (doubles(4, 2), weight))
    assert gradcheck(lambda x, w: x @ weight, (doubles(4, 2), weight), fast_mode=True)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda x: x, doubles(2, grad=False))
    with pytest.raises(ValueError, match="check_forward_ad or check_backward_ad"):
        gradcheck(lambda x: x, doubles(2), check_backward_ad=False)
    with pytest.raises(ValueError, match="needs check_forward_ad"):
        gradcheck(lambda x: x, doubles(2), check_batched_forward_grad=True)
    with pytest.raises(ValueError, match="needs check_backward_ad"):
        gradcheck(lambda x: x, doubles(2), check_batched_grad=True, check_backward_ad=False,
                  check_forward_ad=True)  # fmt: skip


def has_complex_numbers() -> bool:
    try:
        weft.zeros(1, dtype=weft.complex128)
    except (AttributeError, NotImplementedError):
        return False
    return True


@pytest.mark.skipif(not has_complex_numbers(), reason="has no complex numbers")
def test_complex_numbers_are_refused() -> None:
    z = weft.zeros(2, dtype=weft.complex128, requires_grad=True)
    with pytest.raises(NotImplementedError, match=r"input 0 is .*complex128"):
        gradcheck(lambda x: x * 2, z)
    with pytest.raises(NotImplementedError, match=r"output 0 is .*complex128"):
        gradcheck(lambda x: weft.complex(x, x), doubles(2))


@pytest.mark.skipif(not hasattr(weft.autograd, "forward_ad"), reason="has no forward mode")
@MODES
def test_forward_mode(fast: bool) -> None:
    for case in ("chain", "matrix product", "two outputs", "unused input", "number"):
        func, inputs = RIGHT[case]
        assert gradcheck(func, inputs, check_forward_ad=True, fast_mode=fast)
        assert gradcheck(func, inputs, check_forward_ad=True, check_backward_ad=False)
        assert gradgradcheck(func, inputs, check_fwd_over_rev=True, fast_mode=fast)


@pytest.mark.skipif(not hasattr(weft, "vmap"), reason="has no vmap")
def test_batched_derivatives() -> None:
    for case in ("chain", "matrix product", "two outputs", "unused input"):
        func, inputs = RIGHT[case]
        assert gradcheck(func, inputs, check_batched_grad=True)
        assert gradcheck(func, inputs, check_forward_ad=True, check_batched_forward_grad=True)


def test_signatures_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    import inspect

    for name in ("gradcheck", "gradgradcheck"):
        theirs = inspect.signature(getattr(torch.autograd, name)).parameters
        ours = inspect.signature(getattr(checker, name)).parameters
        assert [(p.name, p.kind, p.default) for p in ours.values()] == [
            (p.name, p.kind, p.default) for p in theirs.values()
        ]

"""`weft.autograd.functional` gives what `torch.autograd.functional` gives.

weft's source is also run over PyTorch's tensors: then the two differ in nothing but this module.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.autograd import functional as theirs

from tests.parity.bridge import Bridge, to_numpy

SOURCE = Path(__file__).parents[2] / "weft" / "autograd"


def load_over_torch(name: str) -> ModuleType:
    """`weft.autograd.<name>` with PyTorch in the place of weft."""
    spec = importlib.util.spec_from_file_location(f"weft_over_torch_{name}", SOURCE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    replaced = ("weft", "weft._core")
    before = {key: sys.modules.pop(key) for key in replaced if key in sys.modules}
    sys.modules.update(dict.fromkeys(replaced, torch))
    try:
        spec.loader.exec_module(module)
    finally:
        for key in replaced:
            del sys.modules[key]
        sys.modules.update(before)
    return module


class OverTorch:
    """weft's source, PyTorch's tensors."""

    module = torch
    functional = load_over_torch("functional")


class OverWeft:
    """weft itself."""

    def __init__(self) -> None:
        pytest.importorskip("weft._core")
        self.module = pytest.importorskip("weft")
        self.functional = pytest.importorskip("weft.autograd.functional")


@pytest.fixture(params=["over_torch", "over_weft"])
def ours(request: pytest.FixtureRequest) -> Any:
    return OverTorch() if request.param == "over_torch" else OverWeft()


def inputs_of(*shapes: tuple[int, ...]) -> Any:
    generator = torch.Generator().manual_seed(len(shapes))
    made = tuple(
        torch.rand(shape, generator=generator, dtype=torch.float64) + 0.5 for shape in shapes
    )
    return made if len(made) > 1 else made[0]


# Only methods and operators, so that the same function runs on either library's tensors.
FUNCTIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    "elementwise": (lambda x: x.exp() * x.sin(), inputs_of((2, 3))),
    "rows": (lambda x: x.exp().sum(1), inputs_of((3, 2))),
    "product": (lambda x, y: x @ y, inputs_of((2, 3), (3, 2))),
    "two outputs": (lambda x: (x.sum(0), x * x), inputs_of((2, 2))),
    "two and two": (lambda x, y: (x * y, (x + y).prod()), inputs_of((3,), (3,))),
    "number": (lambda x: x.log().sum(), inputs_of((4,))),
    "unused input": (lambda x, y: x * 2, inputs_of((2,), (3,))),
    "constant output": (lambda x: (x * x, x.detach() * 3), inputs_of((2,))),
    "linear": (lambda x: x.sum(0) * 3, inputs_of((2, 2))),
    "zero-dim": (lambda x: x.tanh(), inputs_of(())),
    "broadcast": (lambda x, y: (x * y.exp()).sum(-1), inputs_of((2, 1), (3,))),
    "non-contiguous": (lambda x: (x.t() * x).softmax(0), inputs_of((3, 3)).t()),
    "indexing": (lambda x: x[1:] * x[:-1], inputs_of((4,))),
}
SCALAR_FUNCTIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    "cubes": (lambda x: (x * x * x).sum(), inputs_of((2, 3))),
    "mixed": (lambda x, y: (x.exp() * y).sum() + (y * y * y).prod(), inputs_of((3,), (3,))),
    "shape of one": (lambda x: (x.sin() * x).sum().reshape(1, 1), inputs_of((3,))),
    "linear in one": (lambda x, y: (x * x).sum() + y.sum(), inputs_of((2,), (2,))),
    "unused input": (lambda x, y: (x * x).sum(), inputs_of((2,), (2,))),
    "linear": (lambda x: x.sum(), inputs_of((2,))),
    "single number": (lambda x: x.sin(), inputs_of(())),
    "rational": (lambda x, y: (x / y).sum() / y.sum(), inputs_of((2, 2), (2, 2))),
}


def assert_equal(ours: Any, result: Any, expected: Any, history: bool = True) -> None:
    if isinstance(expected, (tuple, list)):
        # PyTorch returns lists from some vectorized paths; weft returns tuples from all.
        assert type(result) is tuple and len(result) == len(expected)
        for one, other in zip(result, expected, strict=True):
            assert_equal(ours, one, other, history)
        return
    assert tuple(result.shape) == tuple(expected.shape)
    assert str(result.dtype).rpartition(".")[2] == str(expected.dtype).rpartition(".")[2]
    assert not history or result.requires_grad == expected.requires_grad
    converted = torch.from_numpy(to_numpy(result, ours.module).copy())
    torch.testing.assert_close(converted, expected.detach())


def compare(ours: Any, name: str, func: Any, inputs: Any, *arguments: Any, **options: Any) -> None:
    """Same result, or an error of the same class."""
    bridge = Bridge(ours.module)
    try:
        expected = getattr(theirs, name)(func, inputs, *arguments, **options)
    except Exception as error:
        with pytest.raises(type(error)):
            getattr(ours.functional, name)(func, bridge(inputs), *bridge(arguments), **options)
        return
    result = getattr(ours.functional, name)(func, bridge(inputs), *bridge(arguments), **options)
    # PyTorch's vectorized paths return history that nobody asked for.
    assert_equal(ours, result, expected, history=not options.get("vectorize"))


def like(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(like(item) for item in value)
    return torch.linspace(-1, 2, value.numel(), dtype=torch.float64).reshape(value.shape)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("case", FUNCTIONS)
def test_products_and_jacobians(ours: Any, case: str, create_graph: bool, strict: bool) -> None:
    func, inputs = FUNCTIONS[case]
    options = {"create_graph": create_graph, "strict": strict}
    outputs = func(*inputs) if isinstance(inputs, tuple) else func(inputs)
    compare(ours, "jacobian", func, inputs, **options)
    compare(ours, "vjp", func, inputs, like(outputs), **options)
    compare(ours, "jvp", func, inputs, like(inputs), **options)
    compare(ours, "vjp", func, inputs, **options)
    compare(ours, "jvp", func, inputs, **options)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("case", SCALAR_FUNCTIONS)
def test_hessians(ours: Any, case: str, create_graph: bool, strict: bool) -> None:
    func, inputs = SCALAR_FUNCTIONS[case]
    options = {"create_graph": create_graph, "strict": strict}
    compare(ours, "hessian", func, inputs, **options)
    for name in ("vhp", "hvp"):
        compare(ours, name, func, inputs, like(inputs), **options)
        compare(ours, name, func, inputs, **options)


@pytest.mark.parametrize("strategy", ["forward-mode", "reverse-mode", "sideways"])
@pytest.mark.parametrize("vectorize", [False, True])
@pytest.mark.parametrize("case", FUNCTIONS)
def test_strategies(ours: Any, case: str, vectorize: bool, strategy: str) -> None:
    func, inputs = FUNCTIONS[case]
    for options in ({}, {"create_graph": True}, {"strict": True}):
        compare(ours, "jacobian", func, inputs, vectorize=vectorize, strategy=strategy, **options)


@pytest.mark.parametrize("strategy", ["forward-mode", "reverse-mode"])
@pytest.mark.parametrize("case", SCALAR_FUNCTIONS)
def test_strategies_of_hessians(ours: Any, case: str, strategy: str) -> None:
    func, inputs = SCALAR_FUNCTIONS[case]
    compare(ours, "hessian", func, inputs, vectorize=True, outer_jacobian_strategy=strategy)


def test_gradients_of_results(ours: Any) -> None:
    """What `create_graph` connects is connected to the caller's tensors."""

    def third(module: Any, functional: Any, x: Any) -> Any:
        hessian = functional.hessian(lambda t: (t * t * t * t).sum(), x, create_graph=True)
        return module.autograd.grad(hessian.sum(), x)[0]

    x = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64, requires_grad=True)
    mirrored = Bridge(ours.module)(x)
    assert_equal(ours, third(ours.module, ours.functional, mirrored), third(torch, theirs, x))
    assert mirrored.grad is None


def test_an_empty_input_has_an_empty_jacobian(ours: Any) -> None:
    """PyTorch fails on it."""
    x = ours.module.ones(0)
    assert tuple(ours.functional.jacobian(lambda t: t * 2, x).shape) == (0, 0)
    assert tuple(ours.functional.jacobian(lambda t: t.sum(), x).shape) == (0,)


def test_the_inputs_are_left_alone(ours: Any) -> None:
    x = ours.module.ones(3)
    ours.functional.jacobian(lambda t: t * t, x)
    ours.functional.vhp(lambda t: (t * t).sum(), x, x)
    assert not x.requires_grad
    with ours.module.no_grad():
        jacobian = ours.functional.jacobian(lambda t: t * t, x)
    assert jacobian.tolist() == [[2, 0, 0], [0, 2, 0], [0, 0, 2]]


def test_wrong_arguments(ours: Any) -> None:
    module, functional = ours.module, ours.functional
    x = module.ones(3)
    with pytest.raises(TypeError, match="inputs given to vjp must be either a Tensor or a tuple"):
        functional.vjp(lambda t: t, [x])
    with pytest.raises(TypeError, match=r"outputs of the user-provided function given to jacobian"):
        functional.jacobian(lambda t: 3.0, x)
    with pytest.raises(TypeError, match="value at index 1"):
        functional.jvp(lambda t, s: t, (x, 2.0), x)
    with pytest.raises(RuntimeError, match=r"v has invalid size: should be torch.Size\(\[3\]\)"):
        functional.vjp(lambda t: t, x, module.ones(2))
    with pytest.raises(RuntimeError, match="invalid length: should be 2 but got 1"):
        functional.jvp(lambda t, s: t, (x, x), x)
    with pytest.raises(RuntimeError, match="v can only be None"):
        functional.vjp(lambda t: t, x)
    with pytest.raises(RuntimeError, match="should contain a single element"):
        functional.hessian(lambda t: t, x)
    with pytest.raises(RuntimeError, match="should return a single Tensor"):
        functional.hvp(lambda t: (t.sum(), t.sum()), x, x)
    with pytest.raises(RuntimeError, match=r"independent of input 1.*strict mode"):
        functional.jacobian(lambda t, s: t * 2, (x, x), strict=True)
    with pytest.raises(RuntimeError, match=r"Output 0 .* does not require gradients"):
        functional.vjp(lambda t: t.detach().sum(), x, strict=True)
    with pytest.raises(RuntimeError, match=r"jacobian .* is independent"):
        functional.hessian(lambda t: t.sum(), x, strict=True)

"""Every configuration of every optimiser in PyTorch's own test database, beside PyTorch's own."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing._internal.common_optimizers import (
    OptimizerErrorEnum,
    _get_optim_inputs_including_global_cliquey_kwargs,
    optim_db,
)

from .._target import submodule, weft
from .bridge import Bridge, tensor_to, to_numpy

optim = submodule("optim")

# weft has no sparse tensors.
INFOS = {info.name: info for info in optim_db if info.name != "SparseAdam"}
SHAPES: tuple[tuple[int, ...], ...] = ((5, 3), (17,), (), (2, 0), (4, 2, 3))
MATRICES = ((5, 3), (4, 4), (2, 6))  # for Muon, which takes nothing else
STEPS = 7
WITHOUT_GRADIENT = {(3, 1), (0, 4)}  # (step, parameter)
# (relative, absolute), of parameters after all steps. The 16-bit types are rounded once per step
# here, and once per operation there.
TOLERANCES = {
    torch.float64: (1e-10, 1e-12),
    torch.float32: (2e-5, 1e-6),
    torch.bfloat16: (0.05, 0.05),
    torch.float16: (0.02, 0.02),
}


def configurations(names: Iterable[str]) -> list[Any]:
    found: list[Any] = []
    for name in names:
        seen: dict[str, int] = {}
        for entry in _get_optim_inputs_including_global_cliquey_kwargs("cpu", None, INFOS[name]):
            number = seen[entry.desc] = seen.get(entry.desc, 0) + 1
            label = f"{name} {entry.desc}" + (f" {number}" if number > 1 else "")
            found.append(pytest.param(name, entry.kwargs, id=label.replace(" ", "-")))
    return found


# A closure decides what L-BFGS does, not a list of gradients.
WITH_GRADIENTS = [name for name in INFOS if name != "LBFGS"]


def numbers(shape: tuple[int, ...], seed: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


class Pair:
    """The same parameters in both frameworks, each with its optimiser."""

    def __init__(self, name: str, kwargs: dict[str, Any], dtype: torch.dtype) -> None:
        self.differentiable = bool(kwargs.get("differentiable"))
        self.dtype = dtype
        self.name, self.kwargs = name, kwargs
        self.shapes = MATRICES if name == "Muon" else SHAPES
        if name == "Adafactor":  # PyTorch's divides by the number of elements
            self.shapes = tuple(shape for shape in SHAPES if 0 not in shape)
        start = [numbers(shape, 100 + i, dtype) for i, shape in enumerate(self.shapes)]
        self.leaves = {
            torch: [value.clone().requires_grad_() for value in start],
            weft: [tensor_to(weft, value).requires_grad_() for value in start],
        }
        # A recorded step writes into its parameters, which a leaf forbids.
        self.params = {
            module: [p.clone() if self.differentiable else p for p in leaves]
            for module, leaves in self.leaves.items()
        }
        self.grads: dict[Any, list[Any]] = {torch: [], weft: []}
        options = Bridge(weft)(kwargs)
        self.optimizers = {
            torch: getattr(torch.optim, name)(self.params[torch], **copy.deepcopy(kwargs)),
            weft: getattr(optim, name)(self.params[weft], **options),
        }

    def step(self, count: int) -> None:
        absent = WITHOUT_GRADIENT
        if self.name == "SGD" and self.kwargs.get("fused"):
            absent = {(3, 1)}  # PyTorch's cannot begin with momentum later than with the others
        for index, shape in enumerate(self.shapes):
            grad = numbers(shape, 1000 * count + index, self.dtype)
            for module, value in ((torch, grad), (weft, tensor_to(weft, grad))):
                if self.differentiable:
                    value.requires_grad_()
                self.grads[module].append(value)
                self.params[module][index].grad = None if (count, index) in absent else value
        for optimizer in self.optimizers.values():
            optimizer.step()

    def compare(self) -> None:
        self.compare_values(self.params)
        saved, ours = (self.optimizers[module].state_dict() for module in (torch, weft))
        assert list(ours["state"]) == list(saved["state"])
        for key, state in saved["state"].items():
            assert list(ours["state"][key]) == list(state)
            tensors = [name for name in state if isinstance(state[name], torch.Tensor)]
            for name in tensors:
                assert str(ours["state"][key][name].dtype) == str(state[name].dtype), name
            self.compare_values(
                {torch: [state[n] for n in tensors], weft: [ours["state"][key][n] for n in tensors]}
            )
        for group, own in zip(saved["param_groups"], ours["param_groups"], strict=True):
            assert list(own) == list(group)

    def compare_values(self, values: dict[Any, list[Any]]) -> None:
        # A recorded step of PyTorch's counts and corrects in float32, whatever the parameters are;
        # Muon's matrices are rounded to bfloat16.
        in_float32 = self.differentiable or (self.name == "Muon" and self.dtype.itemsize > 4)
        relative, absolute = TOLERANCES[torch.float32 if in_float32 else self.dtype]
        for theirs, own in zip(values[torch], values[weft], strict=True):
            np.testing.assert_allclose(
                to_numpy(own, weft),
                to_numpy(theirs.float() if theirs.dtype == torch.bfloat16 else theirs, torch),
                rtol=relative,
                atol=absolute,
            )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("name", "kwargs"), configurations(WITH_GRADIENTS))
def test_same_steps(name: str, kwargs: dict[str, Any], dtype: torch.dtype) -> None:
    pair = Pair(name, kwargs, dtype)
    assert repr(pair.optimizers[weft]) == repr(pair.optimizers[torch])
    for count in range(STEPS):
        pair.step(count)
    pair.compare()


# PyTorch's SGD cuts the gradient off where it enters a new momentum buffer.
DIFFERENTIABLE = [
    item
    for item in configurations(WITH_GRADIENTS)
    if item.values[1].get("differentiable")
    and not (item.values[0] == "SGD" and item.values[1].get("momentum"))
]


@pytest.mark.parametrize(("name", "kwargs"), DIFFERENTIABLE)
def test_same_derivative(name: str, kwargs: dict[str, Any]) -> None:
    """A step, differentiated by the parameters before it and by their gradients.

    It is one step, because PyTorch's overwrites what a second one's derivative needs.
    """
    pair = Pair(name, kwargs, torch.float64)
    pair.step(1)
    for module in (torch, weft):
        sum((p * p).sum() for p in pair.params[module]).backward()
    for values in (pair.leaves, pair.grads):
        found = {module: [v.grad for v in values[module]] for module in values}
        reached = [i for i, grad in enumerate(found[torch]) if grad is not None]
        assert reached
        pair.compare_values(
            {module: [grads[i] for i in reached] for module, grads in found.items()}
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", [n for n in WITH_GRADIENTS if n not in ("Adafactor", "Muon")])
def test_sixteen_bits(name: str, dtype: torch.dtype) -> None:
    # PyTorch divides by a square root that is 0 in float16 unless eps is larger than its default.
    kwargs: dict[str, Any] = {} if name in ("SGD", "ASGD", "Rprop") else {"eps": 1e-3}
    pair = Pair(name, {**kwargs, "foreach": False}, dtype)
    for count in range(3):
        pair.step(count)
    pair.compare()


@pytest.mark.parametrize(("name", "kwargs"), configurations(WITH_GRADIENTS))
def test_continues_from_pytorch(name: str, kwargs: dict[str, Any]) -> None:
    """A state dict of PyTorch's is loaded in the middle, and training goes on as it would there."""
    if kwargs.get("differentiable"):
        kwargs = {**kwargs, "differentiable": False}
    pair = Pair(name, kwargs, torch.float64)
    for count in range(3):
        pair.step(count)
    fresh = getattr(optim, name)(pair.params[weft], **Bridge(weft)(kwargs))
    fresh.load_state_dict(pair.optimizers[torch].state_dict())
    pair.optimizers[weft] = fresh
    for count in range(3, STEPS):
        pair.step(count)
    pair.compare()


@pytest.mark.parametrize(("name", "kwargs"), configurations(WITH_GRADIENTS))
def test_pytorch_continues(name: str, kwargs: dict[str, Any]) -> None:
    """And the other way: PyTorch goes on from a state dict of ours."""
    if kwargs.get("differentiable"):
        kwargs = {**kwargs, "differentiable": False}
    # In float32, because PyTorch casts the numbers beside a parameter to its dtype.
    pair = Pair(name, kwargs, torch.float32)
    for count in range(3):
        pair.step(count)
    fresh = getattr(torch.optim, name)(pair.params[torch], **copy.deepcopy(kwargs))
    fresh.load_state_dict(to_torch(pair.optimizers[weft].state_dict()))
    pair.optimizers[torch] = fresh
    for count in range(3, STEPS):
        pair.step(count)
    pair.compare()


def to_torch(value: Any) -> Any:
    if isinstance(value, weft.Tensor):
        return torch.from_numpy(np.array(value.detach().numpy()))
    if isinstance(value, dict):
        return {key: to_torch(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(to_torch(item) for item in value)
    return value


class Valley:
    """Rosenbrock's function of two parameters, with L-BFGS of one framework."""

    def __init__(self, module: Any, options: dict[str, Any], start: Any = None) -> None:
        self.module = module
        values = start or [torch.tensor([-0.5, 0.8]), torch.tensor([[0.3], [0.1]])]
        self.params = [
            (v.clone() if module is torch else tensor_to(weft, v)).double().requires_grad_()
            for v in values
        ]
        options = options if module is torch else Bridge(weft)(options)
        self.optimizer = module.optim.LBFGS(self.params, **options)

    def closure(self) -> Any:
        self.optimizer.zero_grad()
        x = self.module.cat([p.reshape(-1) for p in self.params])
        loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
        loss.backward()
        return loss

    def steps(self, count: int) -> list[float]:
        return [self.optimizer.step(self.closure).item() for _ in range(count)]

    def values(self) -> list[np.ndarray]:
        return [to_numpy(p, self.module) for p in self.params]


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize(("name", "kwargs"), configurations(["LBFGS"]))
def test_lbfgs(name: str, kwargs: dict[str, Any], search: str | None) -> None:
    options = {"max_iter": 5, "line_search_fn": search, **kwargs}
    if options["line_search_fn"] is None:
        options.setdefault("lr", 1e-3)
    elif "lr" in options:  # a tiny first step leads to a tie that rounding decides
        options["lr"] = options["lr"] * 500
    theirs, own = Valley(torch, options), Valley(weft, options)
    np.testing.assert_allclose(own.steps(4), theirs.steps(4), rtol=1e-6)
    state, own_state = (side.optimizer.state_dict()["state"][0] for side in (theirs, own))
    assert sorted(own_state) == sorted(state)
    assert (own_state["n_iter"], own_state["func_evals"]) == (state["n_iter"], state["func_evals"])
    for found, expected in zip(own.values(), theirs.values(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("direction", ["to weft", "to PyTorch"])
def test_lbfgs_continues(direction: str) -> None:
    options = {"max_iter": 4, "line_search_fn": "strong_wolfe", "history_size": 3}
    source, target = (torch, weft) if direction == "to weft" else (weft, torch)
    first = Valley(source, options)
    first.steps(2)
    saved = first.optimizer.state_dict()
    if source is weft:
        saved = to_torch(saved)
    second = Valley(target, options, [torch.from_numpy(v.copy()) for v in first.values()])
    second.optimizer.load_state_dict(saved)
    np.testing.assert_allclose(second.steps(3), first.steps(3), rtol=1e-6)


def construction_errors() -> list[Any]:
    return [
        pytest.param(name, entry, id=f"{name}-{entry.optimizer_error_input.desc}".replace(" ", "-"))
        for name, info in INFOS.items()
        for entry in info.optim_error_inputs_func(device="cpu", dtype=torch.float32)
        if entry.error_on is OptimizerErrorEnum.CONSTRUCTION_ERROR
    ]


@pytest.mark.parametrize(("name", "entry"), construction_errors())
def test_same_errors(name: str, entry: Any) -> None:
    given = entry.optimizer_error_input
    convert = Bridge(weft)
    params = given.params if given.params is not None else [torch.zeros(2, 2, requires_grad=True)]
    is_warning = issubclass(entry.error_type, Warning)
    expected = pytest.warns if is_warning else pytest.raises
    with expected(entry.error_type, match=entry.error_regex):
        getattr(optim, name)(convert(params), **convert(given.kwargs))

"""Schedules of learning rates beside PyTorch's: rates, momentum, saved state, warnings, errors."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from .._target import submodule, weft

submodule("optim")
STEPS = 45
Build = Callable[[Any, Any], Any]  # the framework's lr_scheduler module, an optimiser


class Growing:
    """A callable object, whose attributes are saved."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, epoch: float) -> float:
        return 1.0 + self.rate * epoch


SCHEDULES: dict[str, Build] = {
    "lambda": lambda s, o: s.LambdaLR(o, lambda epoch: 0.95**epoch),
    "lambdas": lambda s, o: s.LambdaLR(o, [lambda epoch: 1 / (epoch + 1), Growing(0.1)]),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.9 + 0.001 * epoch),
    "step": lambda s, o: s.StepLR(o, step_size=7, gamma=0.3),
    "multi step": lambda s, o: s.MultiStepLR(o, [3, 9, 9, 30], gamma=0.5),
    "constant": lambda s, o: s.ConstantLR(o, factor=0.25, total_iters=8),
    "linear": lambda s, o: s.LinearLR(o, start_factor=0.2, end_factor=0.7, total_iters=12),
    "exponential": lambda s, o: s.ExponentialLR(o, gamma=0.93),
    "polynomial": lambda s, o: s.PolynomialLR(o, total_iters=20, power=1.7),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, T_max=11, eta_min=0.01),
    "warm restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=5, T_mult=2, eta_min=0.001),
    "equal restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=6),
    "triangular": lambda s, o: s.CyclicLR(o, 0.01, 0.2, step_size_up=6, step_size_down=3),
    "triangular2": lambda s, o: s.CyclicLR(o, [0.01, 0.02], [0.2, 0.1], 5, mode="triangular2"),
    "exp_range": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 4, mode="exp_range", gamma=0.98),
    "scaled": lambda s, o: s.CyclicLR(
        o, 0.01, 0.2, 4, scale_fn=Growing(0.2), scale_mode="iterations", cycle_momentum=False
    ),
    "one cycle": lambda s, o: s.OneCycleLR(o, 0.3, total_steps=STEPS + 1),
    "three phases": lambda s, o: s.OneCycleLR(
        o, [0.3, 0.1], epochs=10, steps_per_epoch=5, three_phase=True, anneal_strategy="linear"
    ),
    "sequential": lambda s, o: s.SequentialLR(
        o,
        [s.LinearLR(o, total_iters=5), s.CosineAnnealingLR(o, T_max=20), s.ExponentialLR(o, 0.8)],
        milestones=[6, 27],
    ),
    "chained": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, factor=0.1, total_iters=4), s.ExponentialLR(o, gamma=0.9)]
    ),
    "chained in sequence": lambda s, o: s.SequentialLR(
        o,
        [s.ChainedScheduler([s.LinearLR(o), s.StepLR(o, 3)]), s.CosineAnnealingLR(o, T_max=9)],
        milestones=[8],
    ),
}


def optimizer_of(module: Any, kind: str, tensor_lr: bool = False) -> Any:
    params = [module.ones(2).requires_grad_() for _ in range(2)]
    for param in params:
        param.grad = module.ones(2)
    number = module.tensor if tensor_lr else float
    groups = [{"params": [params[0]], "lr": number(0.5)}, {"params": [params[1]]}]
    return getattr(module.optim, kind)(groups, lr=number(0.05))


def run(
    module: Any, kind: str, build: Build, steps: int = STEPS, tensor_lr: bool = False
) -> tuple[Any, Any, list[Any]]:
    optimizer = optimizer_of(module, kind, tensor_lr)
    with warnings.catch_warnings():
        if module is torch:  # a chain in a sequence makes PyTorch complain about itself
            warnings.filterwarnings("ignore", "Detected call of")
        scheduler = build(module.optim.lr_scheduler, optimizer)
    return optimizer, scheduler, go_on(optimizer, scheduler, steps)


def go_on(optimizer: Any, scheduler: Any, steps: int) -> list[Any]:
    seen = []
    for _ in range(steps):
        seen.append(options(optimizer, scheduler))
        optimizer.step()
        scheduler.step()
    return [*seen, options(optimizer, scheduler)]


def options(optimizer: Any, scheduler: Any) -> list[Any]:
    rates = [float(rate) for rate in scheduler.get_last_lr()]
    groups = [
        (float(g["lr"]), g.get("momentum", 0.0), *g.get("betas", (0.0, 0.0)))
        for g in optimizer.param_groups
    ]
    assert rates == [group[0] for group in groups]
    return [number for group in groups for number in group]


def same(own: list[Any], theirs: list[Any], relative: float = 1e-12) -> None:
    assert len(own) == len(theirs)
    for step, (a, b) in enumerate(zip(own, theirs, strict=True)):
        assert a == pytest.approx(b, rel=relative, abs=1e-15), step


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_same_rates(name: str, kind: str) -> None:
    build = SCHEDULES[name]
    _, theirs, expected = run(torch, kind, build)
    _, own, found = run(weft, kind, build)
    same(found, expected)
    saved, own_saved = theirs.state_dict(), own.state_dict()
    assert sorted(own_saved) == sorted(saved)


@pytest.mark.parametrize("name", SCHEDULES)
def test_tensors_as_rates(name: str) -> None:
    _, _, expected = run(torch, "SGD", SCHEDULES[name], tensor_lr=True)
    optimizer, _, found = run(weft, "SGD", SCHEDULES[name], tensor_lr=True)
    same(found, expected, 2e-5)
    assert all(isinstance(group["lr"], weft.Tensor) for group in optimizer.param_groups)


@pytest.mark.parametrize("name", SCHEDULES)
def test_continues_from_saved_state(name: str) -> None:
    """Of PyTorch's and of our own, in the middle."""
    build = SCHEDULES[name]
    _, _, expected = run(torch, "SGD", build)
    for module in (torch, weft):
        theirs, their_scheduler, _ = run(module, "SGD", build, 20)
        optimizer = optimizer_of(weft, "SGD")
        scheduler = build(weft.optim.lr_scheduler, optimizer)
        scheduler.load_state_dict(copy.deepcopy(their_scheduler.state_dict()))
        for group, saved in zip(optimizer.param_groups, theirs.param_groups, strict=True):
            group.update({key: value for key, value in saved.items() if key != "params"})
        optimizer.step()  # else the order of steps is complained about
        same(go_on(optimizer, scheduler, STEPS - 20), expected[20:])


@pytest.mark.parametrize(
    "name",
    ["lambda", "step", "multi step", "constant", "linear", "exponential", "polynomial", "cosine",
     "warm restarts", "equal restarts"],
)  # fmt: skip
def test_steps_to_an_epoch(name: str) -> None:
    epochs = [0, 3, 4, 9, 2, 17, 30] if "restarts" not in name else [0, 0.5, 4, 7.25, 2, 17, 31.5]
    results = {}
    for module in (torch, weft):
        optimizer = optimizer_of(module, "SGD")
        scheduler = SCHEDULES[name](module.optim.lr_scheduler, optimizer)
        optimizer.step()
        results[module] = []
        for epoch in epochs:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The epoch parameter")
                scheduler.step(epoch)
            results[module].append(options(optimizer, scheduler))
    same(results[weft], results[torch])


PLATEAUS: dict[str, dict[str, Any]] = {
    "default": {"patience": 2},
    "max": {"mode": "max", "patience": 1, "factor": 0.5},
    "absolute": {"threshold_mode": "abs", "threshold": 0.05, "patience": 1},
    "absolute max": {"mode": "max", "threshold_mode": "abs", "threshold": 0.05, "patience": 0},
    "cooldown": {"cooldown": 3, "patience": 0, "min_lr": [1e-3, 1e-2]},
    "floor": {"patience": 0, "min_lr": 0.01, "eps": 1e-3},
}


@pytest.mark.parametrize("name", PLATEAUS)
def test_plateaus(name: str) -> None:
    generator = torch.Generator().manual_seed(3)
    figures = (
        1 / (1 + 0.3 * torch.arange(40)) + 0.05 * torch.rand(40, generator=generator)
    ).tolist()
    results = {}
    for module in (torch, weft):
        optimizer = optimizer_of(module, "SGD")
        scheduler = module.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **PLATEAUS[name])
        results[module] = []
        for step, figure in enumerate(figures):
            if step == 20:
                saved = copy.deepcopy(scheduler.state_dict())
                scheduler = module.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
                scheduler.load_state_dict(saved)
            scheduler.step(module.tensor(figure) if step % 2 else figure)
            results[module].append([*options(optimizer, scheduler), scheduler.num_bad_epochs])
        results[module].append(sorted(scheduler.state_dict()))
    assert results[weft].pop() == results[torch].pop()
    same(results[weft], results[torch])


ERRORS: dict[str, Build] = {
    "no optimiser": lambda s, o: s.StepLR([1], 3),
    "plateau without optimiser": lambda s, o: s.ReduceLROnPlateau([1]),
    "too few lambdas": lambda s, o: s.LambdaLR(o, [lambda epoch: 1.0]),
    "no function": lambda s, o: s.MultiplicativeLR(o, [1.0, 2.0]),
    "constant above 1": lambda s, o: s.ConstantLR(o, factor=1.5),
    "linear from 0": lambda s, o: s.LinearLR(o, start_factor=0),
    "linear above 1": lambda s, o: s.LinearLR(o, end_factor=1.2),
    "resumed without start": lambda s, o: s.StepLR(o, 3, last_epoch=4),
    "restarts T_0": lambda s, o: s.CosineAnnealingWarmRestarts(o, 0),
    "restarts T_mult": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 0),
    "restarts eta_min": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 1, "0"),
    "restarts epoch": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3).step(-1),
    "cyclic mode": lambda s, o: s.CyclicLR(o, 0.1, 0.2, mode="square"),
    "cyclic rates": lambda s, o: s.CyclicLR(o, [0.1], 0.2),
    "one cycle without length": lambda s, o: s.OneCycleLR(o, 0.1, epochs=3),
    "one cycle length": lambda s, o: s.OneCycleLR(o, 0.1, total_steps=0),
    "one cycle share": lambda s, o: s.OneCycleLR(o, 0.1, 10, pct_start=2.0),
    "one cycle strategy": lambda s, o: s.OneCycleLR(o, 0.1, 10, anneal_strategy="log"),
    "one step too many": lambda s, o: [
        (o.step(), c.step()) for c in [s.OneCycleLR(o, 0.1, 2)] for _ in range(3)
    ],
    "no schedules": lambda s, o: s.SequentialLR(o, [], []),
    "milestones": lambda s, o: s.SequentialLR(o, [s.StepLR(o, 3)], [4]),
    "no schedule": lambda s, o: s.SequentialLR(o, [3], []),
    "plateau in chain": lambda s, o: s.ChainedScheduler([s.ReduceLROnPlateau(o)]),
    "two optimisers": lambda s, o: s.ChainedScheduler(
        [s.StepLR(o, 3), s.StepLR(type(o)([o.param_groups[0]["params"][0]]), 3)]
    ),
    "plateau factor": lambda s, o: s.ReduceLROnPlateau(o, factor=1.0),
    "plateau mode": lambda s, o: s.ReduceLROnPlateau(o, mode="best"),
    "plateau threshold": lambda s, o: s.ReduceLROnPlateau(o, threshold_mode="both"),
    "plateau rates": lambda s, o: s.ReduceLROnPlateau(o, min_lr=[0.1]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_same_errors(name: str) -> None:
    messages = {}
    for module in (torch, weft):
        with pytest.raises((TypeError, ValueError, KeyError, RuntimeError)) as caught:
            ERRORS[name](module.optim.lr_scheduler, optimizer_of(module, "SGD"))
        messages[module] = caught.type, str(caught.value)
    assert messages[weft][0] is messages[torch][0]
    # PyTorch's first words are among ours.
    assert messages[torch][1].strip("'\"")[:30] in messages[weft][1]


@pytest.mark.parametrize("order", ["scheduler first", "step replaced", "get_lr", "epoch"])
def test_same_warnings(order: str) -> None:
    for module in (torch, weft):
        optimizer = optimizer_of(module, "SGD")
        scheduler = module.optim.lr_scheduler.StepLR(optimizer, 3)
        if order == "step replaced":
            optimizer.step = lambda: None
        with pytest.warns(UserWarning) as caught:
            if order == "get_lr":
                scheduler.get_lr()
            elif order == "epoch":
                optimizer.step()
                scheduler.step(2)
            else:
                scheduler.step()
        (warning,) = caught
        words = {
            "scheduler first": r"`lr_scheduler.step\(\)` before `optimizer.step\(\)`",
            "step replaced": r"`optimizer.step\(\)` has been overridden",
            "get_lr": r"please use `get_last_lr\(\)`",
            "epoch": r"The epoch parameter in `scheduler.step\(\)`",
        }
        assert re.search(words[order], str(warning.message))
        if module is weft:
            assert warning.filename == __file__

"""What a step of an optimiser costs: over many tiny parameters, a few small ones, one large one.

The gradients stay, so that the step is all that is measured. PyTorch runs as it does by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from bench.case import Case, Framework, Workload

TINY = ((16,),) * 1000
FEW = ((32, 32), (32,), (32, 32), (32,), (8, 32), (8,))  # a small perceptron
LARGE = ((2048, 2048),)  # 4M floats: seven streams of 16 MB for Adam


@dataclass(frozen=True)
class Kind:
    """An optimiser as the cases use it."""

    name: str
    title: str
    optimiser: str
    options: dict[str, Any]


KINDS = (
    Kind("sgd", "SGD with momentum", "SGD", {"lr": 1e-3, "momentum": 0.9}),
    Kind("adam", "Adam", "Adam", {"lr": 1e-3}),
    Kind("adamw", "AdamW", "AdamW", {"lr": 1e-3}),
)


def cases() -> list[Case]:
    """All cases of this file."""
    found = []
    for kind in KINDS:
        for name, title, shapes, bar, threads in (
            ("tiny", "1,000 parameters of 16 floats", TINY, 15.0, 1),
            ("few", "6 parameters of up to 32x32", FEW, 10.0, 1),
            ("large", "4M floats", LARGE, 1.0, 1),
            ("large", "4M floats", LARGE, 1.0, 2),
        ):
            suffix, words = ("-2", ", 2 threads") if threads == 2 else ("", "")
            found.append(
                Case(
                    id=f"step/{kind.name}-{name}{suffix}",
                    title=f"a step of {kind.title}, {title}{words}",
                    build=lambda torch, kind=kind, shapes=shapes: step(torch, kind, shapes),  # type: ignore[misc]
                    bar=bar,
                    threads=threads,
                )
            )
    found.append(
        Case(
            id="step/zero-grad",
            title="zero_grad() over 1,000 parameters that have none",
            build=zero_grad,
            bar=10.0,
        )
    )
    return found


def parameters(torch: Framework, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    return [torch.full(shape, 0.5).requires_grad_() for shape in shapes]


def step(torch: Framework, kind: Kind, shapes: Sequence[tuple[int, ...]]) -> Workload:
    params = parameters(torch, shapes)
    for param in params:
        param.grad = torch.full(param.shape, 0.01)
    optimiser = getattr(torch.optim, kind.optimiser)(params, **kind.options)
    optimiser.step()  # makes the state

    def loop(n: int) -> None:
        for _ in repeat(None, n):
            optimiser.step()

    return Workload(loop)


def zero_grad(torch: Framework) -> Workload:
    optimiser = torch.optim.SGD(parameters(torch, TINY), lr=1e-3)

    def loop(n: int) -> None:
        for _ in repeat(None, n):
            optimiser.zero_grad()

    return Workload(loop)

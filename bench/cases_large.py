"""Large tensors: where arithmetic and memory decide, and how exact the results are.

Inputs come from numpy with a fixed seed, so that both frameworks compute the same numbers, and a
float64 reference gives the distance in units in the last place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from typing import Any

from bench.case import Case, Framework, Workload

SIDE = 2048  # SIDE * SIDE is the 4M floats of the bars
ULP_LIMIT = 2.0
# The C library gives fresh 16 MB blocks back to the system, and pays thousands of page faults for
# each one, until its thresholds have settled: 16 results at most, where it was watched.
ALLOCATOR_WARM_UP = 25
MATMUL_SIZES = (512, 1024)
RATE_CASE = "matmul/1024"

Array = Any  # numpy.ndarray; numpy is imported by the workers only


@dataclass(frozen=True)
class Large:
    """One large operation and its float64 reference."""

    name: str
    title: str
    low: float
    high: float
    run: Callable[[Framework, Framework, Framework], Framework]  # torch, x, y
    reference: Callable[[Any, Array, Array], Array]  # numpy, x, y in float64
    ulp_limit: float | None = ULP_LIMIT


def gelu_expression(torch: Framework, x: Framework) -> Framework:
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def gelu_reference(np: Any, x: Array) -> Array:
    # 0.5 * (1 + tanh(u)) as a logistic function: no cancellation in the left tail.
    return x / (1.0 + np.exp(-2.0 * 0.7978845608028654 * (x + 0.044715 * x * x * x)))


def softmax_reference(np: Any, x: Array) -> Array:
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


LARGE = (
    Large("add", "add", -4, 4, lambda torch, x, y: x + y, lambda np, x, y: x + y),
    Large("exp", "exp", -20, 20, lambda torch, x, y: torch.exp(x), lambda np, x, y: np.exp(x)),
    Large("tanh", "tanh", -5, 5, lambda torch, x, y: torch.tanh(x), lambda np, x, y: np.tanh(x)),
    Large(
        "gelu",
        "gelu(approximate='tanh')",
        -4,
        4,
        lambda torch, x, y: torch.nn.functional.gelu(x, approximate="tanh"),
        lambda np, x, y: gelu_reference(np, x),
    ),
    # Nine roundings one after the other: its distance is shown, the single operations are judged.
    Large(
        "gelu-expression",
        "gelu as an expression of 9 operations",
        -4,
        4,
        lambda torch, x, y: gelu_expression(torch, x),
        lambda np, x, y: gelu_reference(np, x),
        ulp_limit=None,
    ),
    # Sums of positive numbers: with cancellation the last place says nothing.
    Large("sum", "sum", 0, 1, lambda torch, x, y: x.sum(), lambda np, x, y: x.sum()),
    Large(
        "sum-dim0",
        "sum(dim=0)",
        0,
        1,
        lambda torch, x, y: x.sum(dim=0),
        lambda np, x, y: x.sum(axis=0),
    ),
    Large(
        "sum-dim1",
        "sum(dim=1)",
        0,
        1,
        lambda torch, x, y: x.sum(dim=1),
        lambda np, x, y: x.sum(axis=1),
    ),
    Large("max", "max", -4, 4, lambda torch, x, y: x.max(), lambda np, x, y: x.max()),
    Large(
        "softmax",
        "softmax(dim=-1)",
        0,
        1,
        lambda torch, x, y: torch.softmax(x, dim=-1),
        lambda np, x, y: softmax_reference(np, x),
    ),
)


def cases() -> list[Case]:
    """All cases of this file, one thread and two."""
    found: list[Case] = []
    for threads in (1, 2):
        suffix = "" if threads == 1 else "/2-threads"
        words = "1 thread" if threads == 1 else "2 threads"
        found += [
            Case(
                id=f"large/{large.name}{suffix}",
                title=f"{large.title}, 4M floats, {words}",
                build=lambda torch, large=large: elementwise(torch, large),  # type: ignore[misc]
                bar=1.0,
                ulp_limit=large.ulp_limit,
                threads=threads,
            )
            for large in LARGE
        ]
        found += [
            Case(
                id=f"matmul/{size}{suffix}",
                title=f"{size}x{size} matmul, {words}",
                build=lambda torch, size=size: matmul(torch, size),  # type: ignore[misc]
                bar=0.95,
                bar_on_slow_library=1.8,
                flops=2.0 * size**3,
                threads=threads,
            )
            for size in MATMUL_SIZES
        ]
    return found


def elementwise(torch: Framework, large: Large) -> Workload:
    import numpy as np

    arrays = uniform_pair(large.low, large.high, SIDE)
    x, y = (torch.from_numpy(array) for array in arrays)

    def loop(n: int) -> None:
        for _ in repeat(None, n):
            large.run(torch, x, y)

    def ulp() -> float:
        exact = large.reference(np, *(array.astype(np.float64) for array in arrays))
        return ulp_distance(np, large.run(torch, x, y).numpy(), exact)

    return Workload(loop, ulp=ulp, warm_up_turns=ALLOCATOR_WARM_UP)


def matmul(torch: Framework, size: int) -> Workload:
    a, b = (torch.from_numpy(array) for array in uniform_pair(-1, 1, size))

    def loop(n: int) -> None:
        for _ in repeat(None, n):
            a @ b

    return Workload(loop)


@cache
def uniform_pair(low: float, high: float, size: int) -> tuple[Array, Array]:
    """Two square float32 arrays, the same ones in every process."""
    import numpy as np

    random = np.random.default_rng(20)
    first, second = (random.uniform(low, high, (size, size)).astype(np.float32) for _ in range(2))
    return first, second


def ulp_distance(np: Any, result: Array, exact: Array) -> float:
    """The largest |result - exact| in units of float32's last place at the exact value."""
    smallest_normal = np.finfo(np.float32).tiny
    nearest = np.maximum(np.abs(exact).astype(np.float32), smallest_normal)
    return float(np.max(np.abs(result.astype(np.float64) - exact) / np.spacing(nearest)))

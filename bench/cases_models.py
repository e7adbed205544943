"""Training steps and inference of whole models, and their floors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat

from bench import models
from bench.case import Case, Framework, Workload

# Bytes that an Adam step moves per parameter: it, its gradient and two states are read, and all
# but the gradient written.
ADAM_BYTES = 4 * 7
COPY_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Bar:
    """How many times faster than PyTorch a step must be, where its library is slow or not."""

    slow: float
    elsewhere: float


@dataclass(frozen=True)
class Trained:
    """A model's line in the report."""

    id: str
    title: str
    one: Bar  # with one thread; inference is asked for the same
    two: Bar
    parameters: int = 0  # of the models that have a floor


TRAINED = (
    Trained("mlp-tiny", "MLP 4-32-32-2, batch 8, SGD", Bar(10, 10), Bar(10, 10)),
    Trained("mlp-single", "MLP 64-64-64-64, batch 1, Adam", Bar(10, 10), Bar(10, 10)),
    Trained("gru-loop", "GRU cell loop, 50 steps, batch 8", Bar(8, 8), Bar(8, 8)),
    Trained("neural-ode", "RK4 neural ODE, 20 steps", Bar(8, 8), Bar(8, 8)),
    Trained("tree-lstm", "tree LSTM, 25 trees, node by node", Bar(8, 8), Bar(8, 8)),
    Trained("mlp-dense", "MLP 784-512-512-10, batch 128", Bar(1.9, 1.5), Bar(1.7, 1.7), 669_706),
    Trained("gpt", "GPT 4 layers, 128 wide, batch 12", Bar(1.9, 1.3), Bar(1.8, 1.3), 818_176),
    Trained("cnn", "CNN 32-64 channels, batch 64", Bar(1.6, 1.4), Bar(1.6, 1.4), 50_186),
)
FLOOR_LIMITS = {1: 1.4, 2: 1.5}


def step_id(model: str, threads: int) -> str:
    return f"models/{model}/{threads}"


def inference_id(model: str) -> str:
    return f"models/{model}/inference"


def products_id(model: str, threads: int) -> str:
    return f"models/{model}/products/{threads}"


def copy_id(threads: int) -> str:
    return f"models/copy/{threads}"


def _repeated(work: Callable[[], object]) -> Workload:
    def loop(n: int) -> None:
        for _ in repeat(None, n):
            work()

    return Workload(loop)


def _step(name: str) -> Callable[[Framework], Workload]:
    return lambda torch: _repeated(models.BUILDERS[name](torch).step)


def _inference(name: str) -> Callable[[Framework], Workload]:
    return lambda torch: _repeated(models.BUILDERS[name](torch).infer)


def _products(name: str) -> Callable[[Framework], Workload]:
    def build(torch: Framework) -> Workload:
        products = models.BUILDERS[name](torch).products
        assert products is not None
        return _repeated(products)

    return build


def _copy(torch: Framework) -> Workload:
    source = torch.rand(COPY_BYTES // 8)
    goal = torch.empty_like(source)
    return _repeated(lambda: goal.copy_(source))


def cases() -> list[Case]:
    """Every timed case of this file."""
    found = []
    for threads in (1, 2):
        suffix = f"{threads} thread{'s' * (threads > 1)}"
        for model in TRAINED:
            bar = model.one if threads == 1 else model.two
            title = f"{model.title}: step, {suffix}"
            found.append(
                Case(
                    step_id(model.id, threads),
                    title,
                    _step(model.id),
                    bar=bar.elsewhere,
                    bar_on_slow_library=bar.slow,
                    threads=threads,
                )
            )
            if threads == 1:
                title = f"{model.title}: inference"
                found.append(
                    Case(
                        inference_id(model.id),
                        title,
                        _inference(model.id),
                        bar=bar.elsewhere,
                        bar_on_slow_library=bar.slow,
                    )
                )
            if model.parameters:
                title = f"{model.title}: its products alone, {suffix}"
                id = products_id(model.id, threads)
                found.append(Case(id, title, _products(model.id), threads=threads))
        found.append(Case(copy_id(threads), f"copy of 32 MB, {suffix}", _copy, threads=threads))
    return found

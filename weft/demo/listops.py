"""ListOps: reading nested lists of operations, with one graph per expression.

The task is after Nangia and Bowman (2018): an expression such as ``[MAX 2 9 [MIN 4 7 ] 0 ]`` has a
digit as its value. The network follows the expression's own structure: a leaf is looked up, a list
is folded argument by argument with the weights of its operation, and the answer is read off the
root. No padding, no batching by shape: plain recursion, and the graph is whatever Python did.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import weft
from weft import nn

Expression = int | tuple[str, list["Expression"]]

DIGITS = 10
OPERATIONS: dict[str, Callable[[list[int]], int]] = {
    "MAX": max,
    "MIN": min,
    "MED": statistics.median_low,
    "SM": lambda values: sum(values) % DIGITS,
}


def generate(rng: random.Random, depth: int = 3, arguments: int = 4) -> Expression:
    """A random expression with lists down to `depth`, of 2 to `arguments` arguments each."""

    def below(level: int) -> Expression:
        if level == 0 or rng.random() < 0.65:
            return rng.randrange(DIGITS)
        return lists(level)

    def lists(level: int) -> Expression:
        return rng.choice(list(OPERATIONS)), [
            below(level - 1) for _ in range(rng.randint(2, arguments))
        ]

    return lists(depth)


def value_of(expression: Expression) -> int:
    """What the expression is worth."""
    if isinstance(expression, int):
        return expression
    name, arguments = expression
    return OPERATIONS[name]([value_of(argument) for argument in arguments])


def text_of(expression: Expression) -> str:
    """``[MAX 2 9 [MIN 4 7 ] 0 ]``"""
    if isinstance(expression, int):
        return str(expression)
    name, arguments = expression
    return f"[{name} {' '.join(map(text_of, arguments))} ]"


def shape_of(expression: Expression) -> Any:
    """What the graph of an expression looks like: two that are alike here have the same graph."""
    if isinstance(expression, int):
        return 0
    name, arguments = expression
    return (name, *map(shape_of, arguments))


class TreeReader(nn.Module):
    """Reads an expression along its own structure."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.digits = nn.Embedding(DIGITS, width)
        self.starts = nn.ParameterDict({name: weft.zeros(1, width) for name in OPERATIONS})
        self.folds = nn.ModuleDict({name: nn.GRUCell(width, width) for name in OPERATIONS})
        self.answer = nn.Linear(width, DIGITS)

    def read(self, expression: Expression) -> weft.Tensor:
        """The vector of an expression, `[1, width]`."""
        if isinstance(expression, int):
            return self.digits.weight[expression : expression + 1]
        name, arguments = expression
        fold, state = self.folds[name], self.starts[name]
        for argument in arguments:
            state = fold(self.read(argument), state)
        return state

    def forward(self, expressions: list[Expression]) -> weft.Tensor:
        return self.answer(weft.cat([self.read(expression) for expression in expressions]))


class MistakenReader(TreeReader):
    """The same with one mistake, for the demo to find."""

    def read(self, expression: Expression) -> weft.Tensor:
        """As above, but what the arguments say is taken as given."""
        if isinstance(expression, int):
            return self.digits.weight[expression : expression + 1]
        name, arguments = expression
        fold, state = self.folds[name], self.starts[name]
        for argument in arguments:
            state = fold(self.read(argument).detach(), state)
        return state


class BagReader(nn.Module):
    """The baseline: sees which symbols occur and how often, but not where."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.symbols = [str(digit) for digit in range(DIGITS)] + list(OPERATIONS)
        self.layers = nn.Sequential(
            nn.Linear(len(self.symbols), width), nn.ReLU(), nn.Linear(width, DIGITS)
        )

    def counts(self, expression: Expression) -> list[float]:
        """How often each symbol occurs."""
        words = text_of(expression).replace("[", "").split()
        return [float(words.count(symbol)) for symbol in self.symbols]

    def forward(self, expressions: list[Expression]) -> weft.Tensor:
        return self.layers(weft.tensor([self.counts(expression) for expression in expressions]))


@dataclass
class Progress:
    """How training goes."""

    step: int
    examples: int
    loss: float
    seconds: float
    shapes: set[Any] = field(repr=False)


def train(
    model: nn.Module,
    *,
    seconds: float | None = None,
    steps: int | None = None,
    batch: int = 25,
    seed: int = 0,
    rate: float = 3e-3,
    depth: int = 3,
) -> Iterator[Progress]:
    """Trains for so many seconds or steps, telling how it goes after every step."""
    rng = random.Random(seed)
    optimizer = weft.optim.Adam(model.parameters(), lr=rate)
    shapes: set[Any] = set()
    smooth, step, begun = None, 0, time.perf_counter()
    while True:
        passed = time.perf_counter() - begun
        share = max(passed / seconds if seconds else 0.0, step / steps if steps else 0.0)
        if share >= 1:
            return
        for group in optimizer.param_groups:
            group["lr"] = rate * (1 - share) + 1e-5
        expressions = [generate(rng, depth) for _ in range(batch)]
        answers = weft.tensor([value_of(expression) for expression in expressions])
        loss = nn.functional.cross_entropy(model(expressions), answers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shapes.update(map(shape_of, expressions))
        step += 1
        smooth = loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
        yield Progress(step, step * batch, smooth, passed, shapes)


def accuracy(model: nn.Module, count: int = 1000, seed: int = 10_000, depth: int = 3) -> float:
    """The share of unseen expressions that are read right."""
    rng = random.Random(seed)
    right = 0
    model.eval()
    with weft.inference_mode():
        for _ in range(count // 50):
            expressions = [generate(rng, depth) for _ in range(50)]
            found = model(expressions).argmax(dim=1).tolist()
            right += sum(a == value_of(e) for a, e in zip(found, expressions, strict=True))
    model.train()
    return right / count


def main() -> None:
    weft.manual_seed(0)
    for name, model in (("bag of symbols", BagReader()), ("tree", TreeReader())):
        *_, last = train(model, seconds=15)
        print(
            f"{name}: {last.examples} examples, {len(last.shapes)} different graphs, "
            f"loss {last.loss:.3f}, accuracy {accuracy(model):.1%}"
        )


if __name__ == "__main__":
    main()

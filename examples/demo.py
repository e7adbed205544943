"""A network that is another graph for every example: arithmetic expressions, read as trees.

Each example is a small expression such as ``(min 3 (max 1 9) 4)``. The network computes a vector
for every leaf, combines vectors from the leaves to the root along the expression's own structure,
and reads the answer off the root. Plain tensors, plain recursion and an update written by hand:
whatever Python does is what is recorded.

Run it with ``make demo``.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any

import weft

Expression = int | tuple[str, list["Expression"]]

WIDTH = 24
DIGITS = 10
OPERATIONS = {"min": min, "max": max, "first": lambda *a: a[0], "last": lambda *a: a[-1]}


def make_expression(rng: random.Random, depth: int) -> Expression:
    if depth == 0 or rng.random() < 0.25:
        return rng.randrange(DIGITS)
    arguments = [make_expression(rng, depth - 1) for _ in range(rng.randint(2, 3))]
    return rng.choice(list(OPERATIONS)), arguments


def value_of(expression: Expression) -> int:
    if isinstance(expression, int):
        return expression
    name, arguments = expression
    return OPERATIONS[name](*(value_of(a) for a in arguments))


def shape_of(expression: Expression) -> str:
    """The path the network takes, without the digits: one string for each different graph."""
    if isinstance(expression, int):
        return "."
    name, arguments = expression
    return f"({name} {' '.join(shape_of(a) for a in arguments)})"


def written(expression: Expression) -> str:
    if isinstance(expression, int):
        return str(expression)
    name, arguments = expression
    return f"({name} {' '.join(written(a) for a in arguments)})"


def make_parameters() -> dict[str, Any]:
    weft.manual_seed(0)
    scale = WIDTH**-0.5
    parameters = {
        "digits": weft.randn(DIGITS, WIDTH),
        "readout": weft.randn(WIDTH, DIGITS) * scale,
    }
    for name in OPERATIONS:
        parameters[f"{name}.left"] = weft.randn(WIDTH, 2 * WIDTH) * scale
        parameters[f"{name}.right"] = weft.randn(WIDTH, 2 * WIDTH) * scale
        parameters[f"{name}.out"] = weft.randn(2 * WIDTH, WIDTH) * scale
    for tensor in parameters.values():
        tensor.requires_grad_()
    return parameters


def encode(expression: Expression, p: dict[str, Any]) -> Any:
    """A vector for the expression: recursion does the work, the graph follows."""
    if isinstance(expression, int):
        return p["digits"][expression : expression + 1]
    name, arguments = expression
    state = encode(arguments[0], p)
    for argument in arguments[1:]:
        hidden = (state @ p[f"{name}.left"] + encode(argument, p) @ p[f"{name}.right"]).tanh()
        state = state + hidden @ p[f"{name}.out"]
    return state


def loss_of(expression: Expression, p: dict[str, Any]) -> Any:
    logits = encode(expression, p) @ p["readout"]
    return -logits.log_softmax(-1)[0, value_of(expression)]


def accuracy(examples: list[Expression], p: dict[str, Any]) -> float:
    with weft.no_grad():
        right = sum(int((encode(e, p) @ p["readout"]).argmax()) == value_of(e) for e in examples)
    return right / len(examples)


def step(batch: list[Expression], p: dict[str, Any], moments: dict[str, Any], rate: float) -> float:
    """One update by hand: the gradient divided by its running size, as in RMSprop."""
    total = sum(loss_of(e, p) for e in batch) / len(batch)
    total.backward()
    with weft.no_grad():
        for name, tensor in p.items():
            if tensor.grad is None:
                continue
            size = moments.setdefault(name, weft.zeros_like(tensor))
            size.mul_(0.95).add_(tensor.grad * tensor.grad, alpha=0.05)
            tensor.sub_(rate * tensor.grad / (size.sqrt() + 1e-6))
            tensor.grad = None
    return total.item()


def check_gradient(expression: Expression, p: dict[str, Any], name: str) -> tuple[float, float]:
    """One entry of a gradient, by the chain rule and by finite differences in float64."""
    p = {key: t.detach().double().requires_grad_() for key, t in p.items()}
    (gradient,) = weft.autograd.grad(loss_of(expression, p), [p[name]])
    place = int(gradient.abs().argmax())
    flat, eps = p[name].detach().view(-1), 1e-6
    values = []
    for sign in (1, -1):
        flat[place] += sign * eps
        values.append(loss_of(expression, p).item())
        flat[place] -= sign * eps
    return gradient.view(-1)[place].item(), (values[0] - values[1]) / (2 * eps)


def main() -> None:
    rng = random.Random(0)
    train = [make_expression(rng, 3) for _ in range(8000)]
    test = [make_expression(rng, 3) for _ in range(200)]
    p, moments = make_parameters(), {}
    live = sys.stdout.isatty()

    print("Expressions as trees: one graph per example, recorded while Python runs")
    shown = next(e for e in train if 30 < len(shape_of(e)) < 50)
    print(f"  {len(train)} to learn from, for example")
    print(f"    {written(shown)} = {value_of(shown)}")
    started, batch, epochs = time.perf_counter(), 10, 10
    for epoch in range(epochs):
        rng.shuffle(train)
        losses = []
        for at in range(0, len(train), batch):
            losses.append(step(train[at : at + batch], p, moments, 0.004 * 0.75**epoch))
            if live:
                print(f"\r  epoch {epoch + 1}, {at + batch:4}/{len(train)}", end="", flush=True)
        mean = sum(losses) / len(losses)
        line = f"  epoch {epoch + 1}: loss {mean:.3f}, right on new ones {accuracy(test, p):.0%}"
        print(f"\r{line}" if live else line)
    seconds = time.perf_counter() - started

    paths = {shape_of(e) for e in train}
    commonest = max(
        {values: sum(value_of(e) == values for e in test) for values in range(DIGITS)}.values()
    )
    print(f"  {len(paths)} different graphs in {seconds:.1f} s, among them that example's path:")
    print(f"    {shape_of(shown)}")
    commonest_share = commonest / len(test)
    print(f"  always answering the commonest digit is right {commonest_share:.0%} of the time")

    with weft.no_grad():
        example = max(test, key=lambda e: loss_of(e, p).item())
    analytic, numeric = check_gradient(example, p, "readout")
    print(f"  gradient at one weight: {analytic:+.9f} by the chain rule")
    print(f"                          {numeric:+.9f} by finite differences")
    if abs(analytic - numeric) > 1e-6 * max(1.0, abs(analytic)):
        sys.exit("the two gradients disagree")


if __name__ == "__main__":
    main()

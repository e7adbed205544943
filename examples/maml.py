"""Learning to learn (MAML; Finn, Abbeel and Levine, 2017): a gradient through gradient steps.

Each task is a sine of its own amplitude and phase, seen at ten points. The start is trained so that
one gradient step from it fits a new task; its gradient goes through that step: second derivatives.
"""

from __future__ import annotations

import math
import random

import weft
from weft.nn import functional as F

WIDTH = 40
Weights = list[weft.Tensor]


def start() -> Weights:
    """The weights that are learned, as plain tensors."""
    shapes = [(WIDTH, 1), (WIDTH,), (WIDTH, WIDTH), (WIDTH,), (1, WIDTH), (1,)]
    return [
        (weft.randn(shape) / math.sqrt(shape[-1] if len(shape) > 1 else 1e4)).requires_grad_()
        for shape in shapes
    ]


def predict(weights: Weights, x: weft.Tensor) -> weft.Tensor:
    """Two hidden layers."""
    w1, b1, w2, b2, w3, b3 = weights
    return F.linear(F.linear(F.linear(x, w1, b1).tanh(), w2, b2).tanh(), w3, b3)


def adapt(weights: Weights, x: weft.Tensor, y: weft.Tensor, steps: int, rate: float) -> Weights:
    """Gradient steps on one task, recorded: the result is a function of where they began."""
    for _ in range(steps):
        loss = F.mse_loss(predict(weights, x), y)
        gradients = weft.autograd.grad(loss, weights, create_graph=True)
        weights = [w - rate * g for w, g in zip(weights, gradients, strict=True)]
    return weights


def task(rng: random.Random) -> tuple[weft.Tensor, weft.Tensor, weft.Tensor, weft.Tensor]:
    """Ten points to adapt to and ten to be judged by."""
    amplitude, phase = rng.uniform(0.5, 3.0), rng.uniform(0.0, math.pi)
    x = weft.rand(20, 1) * 10 - 5
    y = amplitude * weft.sin(x + phase)
    return x[:10], y[:10], x[10:], y[10:]


def error_after(weights: Weights, steps: int, tasks: int = 100, seed: int = 10_000) -> float:
    """The mean error on new tasks after adapting to each."""
    rng, total = random.Random(seed), 0.0
    for _ in range(tasks):
        x, y, x_new, y_new = task(rng)
        total += F.mse_loss(predict(adapt(weights, x, y, steps, 0.02), x_new), y_new).item()
    return total / tasks


def main(steps: int = 1500, tasks_per_step: int = 8) -> tuple[float, float]:
    """Trains; returns the error on new tasks before and after one step of adaptation."""
    weft.manual_seed(0)
    rng = random.Random(0)
    weights = start()
    optimizer = weft.optim.Adam(weights, lr=2e-3)
    for step in range(1, steps + 1):
        total = weft.zeros(())
        for _ in range(tasks_per_step):
            x, y, x_new, y_new = task(rng)
            total = total + F.mse_loss(predict(adapt(weights, x, y, 1, 0.02), x_new), y_new)
        loss = total / tasks_per_step
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 250 == 0:
            print(f"step {step:5}  loss after adapting {loss.item():.3f}")
    before, after = error_after(weights, 0), error_after(weights, 5)
    print(f"error on new tasks: {before:.3f} before, {after:.3f} after five steps on ten points")
    return before, after


if __name__ == "__main__":
    main()

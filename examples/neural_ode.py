"""A neural ODE: the right-hand side of a differential equation, learned through its solver.

The classical Runge-Kutta steps are ordinary Python, and backward goes through all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import weft
from weft import nn

Field = Callable[[weft.Tensor], weft.Tensor]


def solve(field: Field, start: weft.Tensor, steps: int, h: float) -> weft.Tensor:
    """The trajectory from `start`, `[steps + 1, ...]`, by Runge-Kutta of the fourth order."""
    y, path = start, [start]
    for _ in range(steps):
        k1 = field(y)
        k2 = field(y + 0.5 * h * k1)
        k3 = field(y + 0.5 * h * k2)
        k4 = field(y + h * k3)
        y = y + (h / 6) * (k1 + 2 * k2 + 2 * k3 + k4)
        path.append(y)
    return weft.stack(path)


def spiral(y: weft.Tensor) -> weft.Tensor:
    """What the observations come from: a slowly shrinking, unevenly fast rotation."""
    return (y**3) @ weft.tensor([[-0.1, 2.0], [-2.0, -0.1]])


class Learned(nn.Module):
    """The right-hand side that is learned."""

    def __init__(self, width: int = 50) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))

    def forward(self, y: weft.Tensor) -> weft.Tensor:
        return self.layers(y**3)


def main(steps: int = 2000, length: int = 10, h: float = 0.05) -> float:
    """Trains on pieces of one trajectory; returns the mean error over the whole of it."""
    weft.manual_seed(0)
    with weft.no_grad():
        observed = solve(spiral, weft.tensor([[2.0, 0.0]]), 400, h)[:, 0]
    model = Learned()
    optimizer = weft.optim.Adam(model.parameters(), lr=3e-3)
    schedule = weft.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(1, steps + 1):
        starts = weft.randint(0, len(observed) - length, (20,))
        goal = weft.stack([observed[starts + k] for k in range(length + 1)])
        loss = ((solve(model, observed[starts], length, h) - goal) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 250 == 0:
            print(f"step {step:4}  loss {loss.item():.6f}")
    with weft.inference_mode():
        error = (solve(model, observed[:1], 100, h)[:, 0] - observed[:101]).abs().mean().item()
    print(f"mean error over 100 steps from the start alone: {error:.4f}")
    return error


if __name__ == "__main__":
    main()

"""A network that grows a layer whenever it stops getting better, while it is being trained.

The new layer starts as the identity, so nothing that was learned is lost; its parameters join the
optimizer, and the next forward pass simply records a longer graph.
"""

from __future__ import annotations

import weft
from weft import nn


class Growing(nn.Module):
    """A stack of residual layers that can be added to."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.width = width
        self.enter = nn.Linear(2, width)
        self.layers = nn.ModuleList()
        self.leave = nn.Linear(width, 2)

    def grow(self) -> nn.Module:
        """Adds a layer that changes nothing yet, and returns it."""
        layer = nn.Sequential(
            nn.Linear(self.width, self.width), nn.Tanh(), nn.Linear(self.width, self.width)
        )
        nn.init.zeros_(layer[2].weight)
        nn.init.zeros_(layer[2].bias)
        self.layers.append(layer)
        return layer

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        h = weft.tanh(self.enter(x))
        for layer in self.layers:
            h = h + layer(h)
        return self.leave(h)


def two_spirals(count: int, noise: float = 0.05) -> tuple[weft.Tensor, weft.Tensor]:
    """Points of two interleaved spirals, and which of them each belongs to."""
    label = weft.randint(0, 2, (count,))
    angle = weft.rand(count).sqrt() * 9.0
    turned = angle + label * 3.14159265
    points = weft.stack([angle * weft.cos(turned), angle * weft.sin(turned)], dim=1) / 9.0
    return points + noise * weft.randn(count, 2), label


def accuracy(model: Growing, points: weft.Tensor, labels: weft.Tensor) -> float:
    """The share of points whose spiral is found."""
    with weft.inference_mode():
        return (model(points).argmax(dim=1) == labels).float().mean().item()


def main(steps: int = 1500, check_every: int = 150) -> tuple[int, float]:
    """Trains; returns how many layers were grown and the accuracy on unseen points."""
    weft.manual_seed(0)
    model = Growing()
    optimizer = weft.optim.Adam(model.parameters(), lr=5e-3)
    unseen = two_spirals(500)
    best, smooth = float("inf"), None
    for step in range(1, steps + 1):
        points, labels = two_spirals(64)
        loss = nn.functional.cross_entropy(model(points), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        smooth = loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
        if step % check_every == 0:
            if smooth > 0.8 * best and len(model.layers) < 4:
                optimizer.add_param_group({"params": model.grow().parameters()})
            best = min(best, smooth)
            print(
                f"step {step:5}  loss {smooth:.3f}  layers {len(model.layers)}  "
                f"accuracy {accuracy(model, *unseen):.1%}"
            )
    return len(model.layers), accuracy(model, *unseen)


if __name__ == "__main__":
    main()

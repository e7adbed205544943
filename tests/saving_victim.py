"""A program that saves until it is killed, for tests/test_saving_kills.py.

    python -m tests.saving_victim save PATH      saves states 1, 2, 3, ... to one file
    python -m tests.saving_victim train FOLDER   trains, and keeps a state after every other step

Prints "ready" once it begins, and after each whole state its number.
"""

from __future__ import annotations

import io
import sys
from typing import Any

import weft
from weft import nn
from weft.utils.data import DataLoader, TensorDataset

STEPS = 40


def numbered_state(number: int) -> dict[str, Any]:
    """A state from which its number can be told in every part."""
    return {
        "number": number,
        "large": weft.full((60_000,), float(number)),
        "small": [weft.full((5,), number, dtype=weft.int64), {"number": number}],
        "late": weft.full((3, 7), float(number), dtype=weft.float64),
    }


def train(folder: str, steps: int = STEPS, started_at: list[int] | None = None) -> dict[str, Any]:
    """Trains with dropout and shuffled data, from the newest state in the folder to the end.

    Returns all that must come out the same: parameters, the optimiser's state, the next random
    numbers.
    """
    weft.manual_seed(3)
    inputs = weft.randn(26, 4)
    data = TensorDataset(inputs, inputs.sin().sum(1, keepdim=True))
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(0.3), nn.Linear(16, 1))
    optimizer = weft.optim.AdamW(model.parameters(), lr=0.02)
    scheduler = weft.optim.lr_scheduler.StepLR(optimizer, step_size=7, gamma=0.8)
    loader = DataLoader(data, batch_size=4, shuffle=True)
    keeper = weft.checkpoint(
        folder, model=model, optimizer=optimizer, scheduler=scheduler, loader=loader
    )
    step = keeper.resume()
    if started_at is not None:
        started_at.append(step)
    while step < steps:
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            scheduler.step()
            step += 1
            if step % 2 == 0:
                keeper.save(step)
                print(step, flush=True)
            if step == steps:
                break
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "next random numbers": weft.rand(3),
    }


def main() -> None:
    what, place = sys.argv[1:]
    weft.save(numbered_state(0), io.BytesIO())  # so that no time goes into importing later
    print("ready", flush=True)
    if what == "train":
        train(place)
        return
    number = 0
    while True:
        number += 1
        weft.save(numbered_state(number), place)
        print(number, flush=True)


if __name__ == "__main__":
    main()

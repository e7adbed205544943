"""A recurrent tagger over sequences of any length, without padding.

Every bracket is tagged with the depth it stands at (capped at 4), and every other symbol with 0:
what has to be remembered is open brackets, for as long as they are open.
"""

from __future__ import annotations

import random

import weft
from weft import nn

SYMBOLS = "()ab"
DEEPEST = 4


def make_sequence(rng: random.Random) -> tuple[list[int], list[int]]:
    """Symbols and their tags; between 3 and 30 of them."""
    symbols, tags, depth = [], [], 0
    for _ in range(rng.randint(3, 30)):
        symbol = rng.choice("(((ab" if depth == 0 else "(()))ab")
        if symbol == "(":
            depth += 1
        tags.append(min(depth, DEEPEST) if symbol in "()" else 0)
        if symbol == ")":
            depth -= 1
        symbols.append(SYMBOLS.index(symbol))
    return symbols, tags


class Tagger(nn.Module):
    """An embedding, a GRU cell that is stepped by hand, and a linear read-out."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(SYMBOLS), width)
        self.cell = nn.GRUCell(width, width)
        self.tags = nn.Linear(width, DEEPEST + 1)

    def forward(self, symbols: weft.Tensor) -> weft.Tensor:
        state = weft.zeros(1, self.cell.hidden_size)
        states = []
        for symbol in self.embedding(symbols):
            state = self.cell(symbol[None], state)
            states.append(state)
        return self.tags(weft.cat(states))


def accuracy(model: Tagger, count: int = 200, seed: int = 10_000) -> float:
    """The share of symbols tagged right, over unseen sequences."""
    rng, right, total = random.Random(seed), 0, 0
    with weft.inference_mode():
        for _ in range(count):
            symbols, tags = make_sequence(rng)
            found = model(weft.tensor(symbols)).argmax(dim=1).tolist()
            right += sum(a == b for a, b in zip(found, tags, strict=True))
            total += len(tags)
    return right / total


def main(steps: int = 800, batch: int = 8) -> float:
    """Trains, prints how it goes, and returns the accuracy at the end."""
    weft.manual_seed(0)
    rng = random.Random(0)
    model = Tagger()
    optimizer = weft.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        for _ in range(batch):  # gradients of sequences of different length add up
            symbols, tags = make_sequence(rng)
            loss = nn.functional.cross_entropy(model(weft.tensor(symbols)), weft.tensor(tags))
            (loss / batch).backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step:4}  loss {loss.item():.3f}  accuracy {accuracy(model, 50):.1%}")
    return accuracy(model)


if __name__ == "__main__":
    main()

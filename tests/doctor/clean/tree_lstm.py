# recursion over nested tuples
import random

import torch
from torch import nn
from torch.nn import functional as F


class Tree(nn.Module):
    def __init__(self):
        super().__init__()
        self.leaf, self.join = nn.Embedding(5, 6), nn.LSTMCell(6, 6)
        self.answer = nn.Linear(6, 2)

    def read(self, tree):
        if isinstance(tree, int):
            x = self.leaf(torch.tensor([tree]))
            return x, torch.zeros_like(x)
        (h1, c1), (h2, c2) = map(self.read, tree)
        return self.join(h1, (h2, c1 + c2))

    def forward(self, tree):
        return self.answer(self.read(tree)[0])


def grow(depth):
    return (
        random.randrange(5)
        if depth == 0 or random.random() < 0.2
        else (grow(depth - 1), grow(depth - 1))
    )


random.seed(0)
torch.manual_seed(0)
model = Tree()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(5):
    optimizer.zero_grad()
    for _ in range(3):
        F.cross_entropy(model(grow(3)), torch.tensor([random.randrange(2)])).backward()
    optimizer.step()

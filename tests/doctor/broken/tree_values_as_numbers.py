# vsepp#4 and pt#19806 in kind: a tree net passes children on as lists of numbers
import torch
from torch import nn


class Tree(nn.Module):
    def __init__(self):
        super().__init__()
        self.leaf = nn.Embedding(10, 4)
        self.join = nn.Linear(8, 4)
        self.answer = nn.Linear(4, 2)

    def read(self, tree):
        if isinstance(tree, int):
            return self.leaf.weight[tree]
        left, right = (self.read(child).tolist() for child in tree)  # CAUSE: broken-chain
        return torch.tanh(self.join(torch.tensor(left + right)))

    def forward(self, tree):
        return self.answer(self.read(tree))


torch.manual_seed(31)
model = Tree()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(4):
    loss = nn.functional.cross_entropy(model(((1, 2), (3, (4, 5)))), torch.tensor(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

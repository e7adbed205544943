# a branch that most inputs do not take
import torch
from torch import nn


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.common, self.rare = nn.Linear(3, 3), nn.Linear(3, 3)
        self.out = nn.Linear(3, 1)

    def forward(self, x):
        if x.sum() > 4:
            x = self.rare(x)
        return self.out(self.common(x).relu())


torch.manual_seed(0)
model = Branching()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(14):
    x = torch.zeros(3) + (2.0 if step == 12 else 0.1)
    optimizer.zero_grad()
    (model(x) - 1).square().sum().backward()
    optimizer.step()

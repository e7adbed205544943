# mindspore#309 in kind: a residual block whose first result is thrown away
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, width)  # CAUSE: unreached-parameters
        self.second = nn.Linear(width, width)

    def forward(self, x):
        y = torch.relu(self.first(x))
        y = torch.relu(self.second(x))
        return x + y


torch.manual_seed(15)
net = nn.Sequential(Block(5), nn.Linear(5, 1))
optimizer = torch.optim.Adam(net.parameters())
for _ in range(4):
    x = torch.randn(8, 5)
    optimizer.zero_grad()
    (net(x).squeeze(-1) - x.sum(-1)).pow(2).mean().backward()
    optimizer.step()

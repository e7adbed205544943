# deepmd-kit#3790: the features are detached on their way to the fitting net
import torch
from torch import nn


class Descriptor(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(3, 8)

    def forward(self, positions):
        return torch.tanh(self.embed(positions)).mean(1)


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.descriptor = Descriptor()
        self.fitting = nn.Linear(8, 1)

    def forward(self, positions):
        features = self.descriptor(positions)
        return self.fitting(features.detach()).squeeze(-1)  # CAUSE: broken-chain


torch.manual_seed(5)
model = Energy()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(4):
    positions = torch.randn(8, 5, 3)
    optimizer.zero_grad()
    loss = (model(positions) - positions.norm(dim=-1).mean(1)).abs().mean()
    loss.backward()
    optimizer.step()

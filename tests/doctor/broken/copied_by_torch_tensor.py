# facebook/Ax#2378: torch.tensor(t) is a copy without history
import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")


class Surrogate(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(2, 16), nn.SiLU())
        self.mean = nn.Linear(16, 1)

    def forward(self, x):
        basis = torch.tensor(self.features(x))  # CAUSE: broken-chain
        return self.mean(basis)[:, 0]


torch.manual_seed(9)
model = Surrogate()
optimizer = torch.optim.Adam(model.parameters(), 0.01)
x = torch.rand(20, 2)
y = torch.sin(3 * x[:, 0]) + x[:, 1]
for iteration in range(5):
    optimizer.zero_grad()
    loss = torch.nn.functional.huber_loss(model(x), y)
    loss.backward()
    optimizer.step()

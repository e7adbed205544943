# pytorch/pytorch#38639: plain tensors with requires_grad in a list, beside registered layers
import torch
from torch import nn


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Linear(9, 3)
        self.up = [  # CAUSE: unregistered-parameters
            nn.Parameter(torch.randn(9, 3) * 0.1),
            nn.Parameter(torch.zeros(9)),
        ]

    def forward(self, x):
        return nn.functional.linear(torch.tanh(self.down(x)), *self.up)


torch.manual_seed(32)
model = Autoencoder()
optimizer = torch.optim.Adamax(model.parameters())
for _ in range(5):
    x = torch.rand(8, 9)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x).backward()
    optimizer.step()

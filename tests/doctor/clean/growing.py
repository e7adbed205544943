# a layer is added in the middle, with add_param_group
import torch
from torch import nn
from torch.nn import functional as F


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4)])
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return self.out(x)


torch.manual_seed(0)
model = Growing()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(9):
    if step in (3, 6):
        layer = nn.Linear(4, 4)
        model.layers.append(layer)
        optimizer.add_param_group({"params": layer.parameters()})
    x = torch.randn(5, 4)
    optimizer.zero_grad()
    F.mse_loss(model(x), x[:, :1]).backward()
    optimizer.step()

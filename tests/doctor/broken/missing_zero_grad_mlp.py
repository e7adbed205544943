# meta-pytorch/torchforge#71: the loop never clears gradients
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(32, 4)
y = x.sum(1, keepdim=True)
for _ in range(5):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()  # CAUSE: stale-gradients

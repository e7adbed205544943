# gradient accumulation over four batches
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
optimizer.zero_grad()
for index in range(16):
    x = torch.randn(4, 4)
    (F.mse_loss(model(x), x[:, :1]) / 4).backward()
    if (index + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()

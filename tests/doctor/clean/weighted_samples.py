# losses of shape (N,) times weights of shape (N,)
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(5):
    x, y, weights = torch.randn(8, 3), torch.randint(0, 2, (8,)), torch.rand(8)
    losses = F.cross_entropy(model(x), y, reduction="none")
    optimizer.zero_grad()
    ((losses * weights).sum() / weights.sum()).backward()
    optimizer.step()

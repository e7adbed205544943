# gradients of the input, taken through a model in evaluation mode
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    x, y = torch.randn(6, 4), torch.randint(0, 2, (6,))
    model.eval()
    x.requires_grad_(True)
    (slope,) = torch.autograd.grad(F.cross_entropy(model(x), y), x)
    attacked = (x + 0.1 * slope.sign()).detach()
    model.train()
    optimizer.zero_grad()
    F.cross_entropy(model(attacked), y).backward()
    optimizer.step()

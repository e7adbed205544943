# an average of the weights is evaluated, properly
import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))
average = copy.deepcopy(model).eval().requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters())
for step in range(6):
    x = torch.randn(8, 3)
    optimizer.zero_grad()
    F.l1_loss(model(x), x.norm(dim=1, keepdim=True)).backward()
    optimizer.step()
    with torch.no_grad():
        for a, p in zip(average.parameters(), model.parameters()):
            a.lerp_(p, 0.05)
        error = (average(x) - x.norm(dim=1, keepdim=True)).abs().mean().item()

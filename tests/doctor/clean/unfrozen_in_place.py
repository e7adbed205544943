# frozen with requires_grad inside the optimizer, thawed later
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
model[0].requires_grad_(False)
for step in range(10):
    if step == 5:
        model[0].requires_grad_(True)
    x = torch.randn(6, 5)
    optimizer.zero_grad()
    F.smooth_l1_loss(model(x), x.sum(1, keepdim=True)).backward()
    optimizer.step()

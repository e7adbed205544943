# zero_grad after the step, set_to_none=False, and parts cleared by hand
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for step in range(9):
    x = torch.randn(6, 3)
    F.mse_loss(model(x), x[:, :1]).backward()
    optimizer.step()
    if step % 3 == 0:
        optimizer.zero_grad(set_to_none=False)
    elif step % 3 == 1:
        for p in model.parameters():
            p.grad = None
    else:
        for p in model.parameters():
            p.grad.zero_()

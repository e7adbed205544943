# gradients are scaled, counted and clipped between backward and step
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
for _ in range(5):
    model.zero_grad()
    F.cross_entropy(model(torch.randn(8, 3)), torch.randint(0, 2, (8,))).backward()
    for p in model.parameters():
        p.grad.mul_(0.5)
        p.grad = p.grad.clamp(-0.1, 0.1)
    optimizer.step()

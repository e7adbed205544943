# retain_graph and a second backward through the first
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(4):
    x = torch.randn(6, 3, requires_grad=True)
    optimizer.zero_grad()
    y = model(x).sum()
    y.backward(retain_graph=True)
    (slope,) = torch.autograd.grad(y, x, create_graph=True)
    (0.1 * slope.pow(2).sum()).backward()
    optimizer.step()

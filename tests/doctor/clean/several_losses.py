# several backwards, one step
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
shared, left, right = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 3)
parameters = [p for m in (shared, left, right) for p in m.parameters()]
optimizer = torch.optim.Adam(parameters)
for _ in range(5):
    optimizer.zero_grad()
    x = torch.randn(6, 4)
    h = shared(x).tanh()
    F.mse_loss(left(h), x[:, :1]).backward(retain_graph=True)
    F.cross_entropy(right(h), torch.randint(0, 3, (6,))).backward()
    optimizer.step()

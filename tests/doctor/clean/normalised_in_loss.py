# means and scales are broadcast on purpose
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
encoder = nn.Linear(6, 4)
temperature = nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([*encoder.parameters(), temperature], lr=0.01)
for _ in range(5):
    z = encoder(torch.randn(4, 6))
    z = (z - z.mean(0)) / (z.std(0) + 1e-4)
    covariance = z.T @ z / (len(z) - 1)
    row = z / z.norm(dim=1, keepdim=True)
    loss = (covariance - torch.eye(4)).pow(2).mean() + (row * temperature).var()
    loss = loss + F.mse_loss(z.mean(), torch.tensor(0.5))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# LoreGoetschalckx/GANalyze#7: zero_grad of a frozen helper instead of the trained transform
import torch
from torch import nn


class Transformer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.shift = nn.Linear(width, width)

    def forward(self, z, alpha):
        return z + alpha * self.shift(z)


torch.manual_seed(1)
generator = nn.Sequential(nn.Linear(6, 12), nn.Tanh()).requires_grad_(False)
assessor = nn.Linear(12, 1).requires_grad_(False)
transformer = Transformer(6)
optimizer = torch.optim.Adam(transformer.parameters(), lr=1e-3)
for batch in range(4):
    z = torch.randn(8, 6)
    wanted = assessor(generator(z)) + 0.5
    generator.zero_grad()
    reached = assessor(generator(transformer(z, 0.5)))
    ((reached - wanted) ** 2).mean().backward()
    optimizer.step()  # CAUSE: stale-gradients

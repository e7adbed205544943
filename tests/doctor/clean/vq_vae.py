# stop-gradients between encoder and code book
import torch
from torch import nn
from torch.nn import functional as F


class VQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(6, 3), nn.Linear(3, 6)
        self.codes = nn.Embedding(5, 3)

    def forward(self, x):
        z = self.enc(x)
        with torch.no_grad():
            nearest = (z[:, None] - self.codes.weight).norm(dim=2).argmin(1)
        q = self.codes(nearest)
        commitment = F.mse_loss(q.detach(), z) + 0.25 * F.mse_loss(q, z.detach())
        return self.dec(z + (q - z).detach()), commitment


torch.manual_seed(0)
model = VQ()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(5):
    x = torch.randn(8, 6)
    output, commitment = model(x)
    optimizer.zero_grad()
    (F.mse_loss(output, x) + commitment).backward()
    optimizer.step()

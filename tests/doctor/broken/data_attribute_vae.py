# LasUIE#10: .data in the sampling of a variational autoencoder
import torch
from torch import nn
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(12, 4)
        self.dec = nn.Linear(2, 12)

    def forward(self, x):
        mean, log_variance = self.enc(x).chunk(2, dim=1)
        z = mean.data + torch.randn(len(x), 2) * torch.exp(  # CAUSE: broken-chain
            log_variance.data / 2
        )
        return self.dec(z)


torch.manual_seed(6)
vae = VAE()
optimizer = torch.optim.Adam(vae.parameters())
for _ in range(4):
    x = torch.rand(8, 12)
    optimizer.zero_grad()
    F.binary_cross_entropy_with_logits(vae(x), x, reduction="sum").backward()
    optimizer.step()

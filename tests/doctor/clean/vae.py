# reparametrised sampling, and loss.item() for the log
import torch
from torch import nn
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.mean, self.log = nn.Linear(12, 8), nn.Linear(8, 2), nn.Linear(8, 2)
        self.dec = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 12))

    def forward(self, x):
        h = self.enc(x).relu()
        mean, log = self.mean(h), self.log(h)
        z = mean + torch.randn_like(mean) * (0.5 * log).exp()
        return self.dec(z), mean, log


torch.manual_seed(0)
vae = VAE()
optimizer = torch.optim.Adam(vae.parameters())
total = 0.0
for _ in range(5):
    x = torch.rand(8, 12)
    output, mean, log = vae(x)
    kl = -0.5 * (1 + log - mean.pow(2) - log.exp()).sum()
    loss = F.binary_cross_entropy_with_logits(output, x, reduction="sum") + kl
    optimizer.zero_grad()
    loss.backward()
    total += loss.item()
    optimizer.step()

# noise prediction at random times
import torch
from torch import nn
from torch.nn import functional as F


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.frequencies = nn.Parameter(torch.randn(8))
        self.net = nn.Sequential(nn.Linear(2 + 8, 16), nn.SiLU(), nn.Linear(16, 2))

    def forward(self, x, t):
        waves = torch.sin(t.float()[:, None] * self.frequencies)
        return self.net(torch.cat([x, waves], dim=1))


torch.manual_seed(0)
model = Denoiser()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
kept = torch.linspace(0.99, 0.01, 20)
for _ in range(5):
    x, t, noise = torch.randn(8, 2), torch.randint(0, 20, (8,)), torch.randn(8, 2)
    share = kept[t][:, None]
    noisy = share.sqrt() * x + (1 - share).sqrt() * noise
    optimizer.zero_grad()
    F.mse_loss(model(noisy, t), noise).backward()
    optimizer.step()

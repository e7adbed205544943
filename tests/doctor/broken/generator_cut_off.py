# LasUIE#10 in kind: the generator loss is computed from samples that were detached for D
import torch
from torch import nn


def mlp(inside, outside):
    return nn.Sequential(nn.Linear(inside, 16), nn.LeakyReLU(0.2), nn.Linear(16, outside))


torch.manual_seed(13)
G, D = mlp(3, 2), mlp(2, 1)
opt_g = torch.optim.Adam(G.parameters(), lr=2e-3)
opt_d = torch.optim.Adam(D.parameters(), lr=2e-3)
bce = nn.BCEWithLogitsLoss()
for _ in range(4):
    real = torch.randn(8, 2) + 2
    fake = G(torch.randn(8, 3)).detach()  # CAUSE: broken-chain
    opt_d.zero_grad()
    d_loss = bce(D(real), torch.ones(8, 1)) + bce(D(fake), torch.zeros(8, 1))
    d_loss.backward()
    opt_d.step()
    opt_g.zero_grad()
    g_loss = bce(D(fake), torch.ones(8, 1))
    g_loss.backward()
    opt_g.step()

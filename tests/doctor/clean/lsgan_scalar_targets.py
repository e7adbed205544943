# a target of one number, and a fresh graph through a frozen critic
import torch
from torch import nn

torch.manual_seed(0)
D = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(), nn.Linear(8, 1))
G = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
opt_d = torch.optim.Adam(D.parameters())
opt_g = torch.optim.Adam(G.parameters())
for _ in range(4):
    D.requires_grad_(True)
    opt_d.zero_grad()
    fake = G(torch.randn(5, 3))
    ((D(torch.randn(5, 2)) - 1) ** 2).mean().backward()
    (D(fake.detach()) ** 2).mean().backward()
    opt_d.step()
    D.requires_grad_(False)
    opt_g.zero_grad()
    ((D(fake) - torch.ones(1)) ** 2).mean().backward()
    opt_g.step()

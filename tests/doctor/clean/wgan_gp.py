# a critic with gradient penalty, several critic steps per generator step
import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
generator = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))


def penalty(real, fake):
    share = torch.rand(len(real), 1)
    between = (share * real + (1 - share) * fake).requires_grad_(True)
    score = critic(between)
    (gradient,) = torch.autograd.grad(score, between, torch.ones_like(score), create_graph=True)
    return ((gradient.norm(2, dim=1) - 1) ** 2).mean()


for step in range(8):
    real = torch.randn(6, 2)
    fake = generator(torch.randn(6, 3)).detach()
    opt_c.zero_grad()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(real, fake)
    loss.backward()
    opt_c.step()
    if step % 3 == 2:
        opt_g.zero_grad()
        (-critic(generator(torch.randn(6, 3))).mean()).backward()
        opt_g.step()

# all quantiles against each target, lifted where it is meant
import torch
from torch import nn, optim

torch.manual_seed(0)
m = nn.Linear(3, 4)
opt = optim.Adam(m.parameters())
tau = torch.linspace(0.1, 0.9, 4)
for i in range(4):
    x = torch.randn(4, 3)
    q = m(x)
    t = torch.randn(4)
    d = t.unsqueeze(1) - q
    loss = torch.max(tau * d, (tau - 1) * d).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

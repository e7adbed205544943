# targets in no_grad, twin critics, a learned temperature, a delayed actor
import copy

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.manual_seed(0)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 8)
        self.mu = nn.Linear(8, 1)
        self.ls = nn.Linear(8, 1)

    def forward(self, s):
        h = F.relu(self.l(s))
        mu = self.mu(h)
        std = self.ls(h).clamp(-5, 2).exp()
        u = mu + std * torch.randn_like(mu)
        a = torch.tanh(u)
        lp = -0.5 * ((u - mu) / std) ** 2 - std.log() - torch.log(1 - a**2 + 1e-6)
        return a, lp.sum(-1, keepdim=True)


act = Actor()
q1 = nn.Linear(4, 1)
q2 = nn.Linear(4, 1)
t1 = copy.deepcopy(q1)
t2 = copy.deepcopy(q2)
la = torch.zeros(1, requires_grad=True)
ao = optim.Adam(act.parameters())
qo = optim.Adam([*q1.parameters(), *q2.parameters()])
lo = optim.Adam([la])
for i in range(6):
    s, s2 = torch.randn(5, 3), torch.randn(5, 3)
    r = torch.randn(5, 1)
    with torch.no_grad():
        a2, lp2 = act(s2)
        y = r + 0.99 * (
            torch.min(t1(torch.cat([s2, a2], 1)), t2(torch.cat([s2, a2], 1))) - la.exp() * lp2
        )
        a, _ = act(s)
    sa = torch.cat([s, a], 1)
    ql = F.mse_loss(q1(sa), y) + F.mse_loss(q2(sa), y)
    qo.zero_grad()
    ql.backward()
    qo.step()
    if i % 2 == 0:
        an, lp = act(s)
        sa = torch.cat([s, an], 1)
        al = (la.exp().detach() * lp - torch.min(q1(sa), q2(sa))).mean()
        ao.zero_grad()
        al.backward()
        ao.step()
        ll = -(la.exp() * (lp + 1.0).detach()).mean()
        lo.zero_grad()
        ll.backward()
        lo.step()
    with torch.no_grad():
        for p, t in zip([*q1.parameters(), *q2.parameters()], [*t1.parameters(), *t2.parameters()]):
            t.mul_(0.99).add_(p, alpha=0.01)

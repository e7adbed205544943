# an auxiliary head that joins the loss after some steps
import torch
import torch.nn.functional as F
from torch import nn, optim

torch.manual_seed(0)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.b = nn.Linear(4, 8)
        self.o = nn.Linear(8, 2)
        self.aux = nn.Linear(8, 2)

    def forward(self, x):
        h = self.b(x)
        return (self.o(h), self.aux(h)) if self.training else self.o(h)


m = M()
opt = optim.SGD(m.parameters(), lr=0.1)
for i in range(10):
    x = torch.randn(5, 4)
    y = torch.randint(0, 2, (5,))
    o, a = m(x)
    loss = F.cross_entropy(o, y)
    if i >= 6:
        loss = loss + 0.3 * F.cross_entropy(a, y)
    opt.zero_grad()
    loss.backward()
    opt.step()

# jiwei0921/CoNet#3, hpa-scc#38: probabilities (B, T, 1) against labels (B, T)
import torch
from torch import nn


class Events(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(2, 6, batch_first=True)
        self.out = nn.Linear(6, 1)

    def forward(self, x):
        return torch.sigmoid(self.out(self.rnn(x)[0]))


def bce(p, y):
    p = p.clamp(1e-6, 1 - 1e-6)
    return -(y * p.log() + (1 - y) * (1 - p).log()).mean()  # CAUSE: accidental-broadcast


torch.manual_seed(29)
net = Events()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(4):
    x = torch.randn(5, 5, 2)
    optimizer.zero_grad()
    bce(net(x), (x[..., 0] > 0).float()).backward()
    optimizer.step()

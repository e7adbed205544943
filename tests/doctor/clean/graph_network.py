# functional dropout that asks for self.training, with a held-out mask
import torch
import torch.nn.functional as F
from torch import nn, optim

torch.manual_seed(0)


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 8)
        self.b = nn.Linear(8, 3)

    def forward(self, x, adj):
        x = F.relu(adj @ self.a(x))
        x = F.dropout(x, training=self.training)
        return adj @ self.b(x)


m = GCN()
opt = optim.Adam(m.parameters())
x = torch.randn(6, 4)
adj = torch.eye(6)
y = torch.randint(0, 3, (6,))
mask = torch.tensor([1, 1, 1, 0, 0, 0]).bool()
for i in range(4):
    m.train()
    opt.zero_grad()
    F.nll_loss(F.log_softmax(m(x, adj)[mask], 1), y[mask]).backward()
    opt.step()
    m.eval()
    with torch.no_grad():
        acc = (m(x, adj)[~mask].argmax(1) == y[~mask]).float().mean().item()

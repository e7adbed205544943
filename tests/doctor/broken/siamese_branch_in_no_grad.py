# davidmascharka/tbd-nets#8 in kind: the embedding of a siamese net is decorated with no_grad
import torch
from torch import nn


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4))
        self.scale = nn.Linear(1, 1)

    @torch.no_grad()
    def embed(self, x):
        return self.tower(x)  # CAUSE: broken-chain

    def forward(self, a, b):
        distance = (self.embed(a) - self.embed(b)).norm(dim=1, keepdim=True)
        return self.scale(distance).squeeze(1)


torch.manual_seed(30)
net = Siamese()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(4):
    a, b = torch.randn(7, 6), torch.randn(7, 6)
    same = torch.randint(0, 2, (7,)).float()
    optimizer.zero_grad()
    nn.functional.binary_cross_entropy_with_logits(net(a, b), same).backward()
    optimizer.step()

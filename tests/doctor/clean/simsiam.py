# stop-gradient on one branch
import torch
from torch import nn


class SimSiam(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 4))
        self.predictor = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))

    def forward(self, a, b):
        z1, z2 = self.encoder(a), self.encoder(b)
        return self.predictor(z1), self.predictor(z2), z1.detach(), z2.detach()


torch.manual_seed(0)
model = SimSiam()
criterion = nn.CosineSimilarity(dim=1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for _ in range(5):
    x = torch.randn(8, 5)
    p1, p2, z1, z2 = model(x + 0.1 * torch.randn_like(x), x)
    loss = -(criterion(p1, z2).mean() + criterion(p2, z1).mean()) * 0.5
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

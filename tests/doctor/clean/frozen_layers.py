# a frozen body and a trained head
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36 * 4, 8))
for parameter in body.parameters():
    parameter.requires_grad = False
model = nn.Sequential(body, nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD((p for p in model.parameters() if p.requires_grad), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    F.cross_entropy(model(torch.rand(4, 1, 8, 8)), torch.randint(0, 2, (4,))).backward()
    optimizer.step()

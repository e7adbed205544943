# frozen parameters that stand in the optimizer all the same
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(12, 2))
model[0].weight.requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for _ in range(5):
    optimizer.zero_grad()
    F.cross_entropy(model(torch.randint(0, 10, (4, 3))), torch.randint(0, 2, (4,))).backward()
    optimizer.step()

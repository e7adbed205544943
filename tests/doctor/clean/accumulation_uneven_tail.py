# accumulation whose last group is smaller
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
batches = 7
for epoch in range(3):
    optimizer.zero_grad()
    for index in range(batches):
        F.cross_entropy(model(torch.randn(5, 4)), torch.randint(0, 3, (5,))).backward()
        if (index + 1) % 3 == 0 or index + 1 == batches:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

# all pairs by explicit unsqueeze, in several spellings
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.01)
for _ in range(4):
    x = torch.randn(6, 4)
    labels = x[:, 0]
    scores = encoder(x).squeeze(1)
    ranks = scores.unsqueeze(1) - scores.unsqueeze(0)
    wanted = labels[:, None] - labels[None, :]
    pairs = scores[:, None] - scores
    mixed = labels.unsqueeze(1) - scores
    loss = F.relu(1 - ranks * wanted.sign()).mean() + 0.1 * pairs.abs().mean()
    loss = loss + 0.1 * mixed.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

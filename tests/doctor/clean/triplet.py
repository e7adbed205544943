# triplet margin loss with hard negatives chosen without gradient
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
embed = nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 3))
optimizer = torch.optim.Adam(embed.parameters())
for _ in range(4):
    anchors, positives, pool = torch.randn(6, 5), torch.randn(6, 5), torch.randn(12, 5)
    with torch.no_grad():
        hardest = (embed(anchors)[:, None] - embed(pool)).norm(dim=2).argmin(1)
    loss = F.triplet_margin_loss(embed(anchors), embed(positives), embed(pool[hardest]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

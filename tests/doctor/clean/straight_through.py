# hard bits forward, soft gradient backward
import torch
from torch import nn
from torch.nn import functional as F


class Binary(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(8, 4)
        self.dec = nn.Linear(4, 8)

    def forward(self, x):
        soft = torch.sigmoid(self.enc(x))
        hard = (soft > 0.5).float()
        return self.dec(soft + (hard - soft).detach())


torch.manual_seed(0)
model = Binary()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for _ in range(5):
    x = torch.rand(6, 8)
    optimizer.zero_grad()
    F.binary_cross_entropy_with_logits(model(x), x.round()).backward()
    optimizer.step()

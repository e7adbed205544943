# the top expert of each example; some experts wait long
import torch
from torch import nn
from torch.nn import functional as F


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 4)
        self.experts = nn.ModuleList(nn.Linear(4, 1) for _ in range(4))

    def forward(self, x):
        share = self.gate(x).softmax(1)
        weight, chosen = share.max(1)
        result = torch.zeros(len(x), 1)
        for number in chosen.unique().tolist():
            mine = (chosen == number).nonzero().squeeze(1)
            result = result.index_add(0, mine, self.experts[number](x[mine]))
        return result * weight.unsqueeze(1)


torch.manual_seed(0)
model = Mixture()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(8):
    x = torch.randn(2, 4)
    optimizer.zero_grad()
    F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
    optimizer.step()

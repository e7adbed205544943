# heads take turns
import torch
from torch import nn
from torch.nn import functional as F


class Multi(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.heads = nn.ModuleDict(
            {"a": nn.Linear(8, 2), "b": nn.Linear(8, 3), "c": nn.Linear(8, 1)}
        )

    def forward(self, x, task):
        return self.heads[task](self.body(x).relu())


torch.manual_seed(0)
model = Multi()
optimizer = torch.optim.Adam(model.parameters())
for step in range(20):
    task = "abc"[step // 7]
    x = torch.randn(6, 4)
    output = model(x, task)
    if task == "c":
        loss = F.mse_loss(output, x[:, :1])
    else:
        loss = F.cross_entropy(output, torch.randint(0, output.shape[1], (6,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

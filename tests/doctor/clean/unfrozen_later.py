# layers are unfrozen after some epochs and join the optimizer
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
body, head = nn.Linear(5, 8), nn.Linear(8, 2)
body.requires_grad_(False)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for epoch in range(8):
    if epoch == 4:
        body.requires_grad_(True)
        optimizer.add_param_group({"params": body.parameters(), "lr": 0.01})
    optimizer.zero_grad()
    F.cross_entropy(head(body(torch.randn(6, 5)).relu()), torch.randint(0, 2, (6,))).backward()
    optimizer.step()

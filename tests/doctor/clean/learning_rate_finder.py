# rising rates, then the weights of the start
import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
start = copy.deepcopy(model.state_dict())
optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 2.0)
losses = []
for _ in range(8):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    loss = F.mse_loss(model(x).squeeze(-1), x.sum(1))
    loss.backward()
    losses.append(loss.detach())
    optimizer.step()
    schedule.step()
model.load_state_dict(start)
rate = optimizer.param_groups[0]["lr"]

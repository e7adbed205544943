# copies are trained, the original is moved by hand
import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
for task in range(4):
    learner = copy.deepcopy(model)
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.05)
    x = torch.randn(8, 1)
    for _ in range(4):
        optimizer.zero_grad()
        F.mse_loss(learner(x), torch.sin(x + task)).backward()
        optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(model.parameters(), learner.parameters()):
            slow += 0.1 * (fast - slow)

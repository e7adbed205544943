# online and target networks; only the online one is trained
import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
online = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
predictor = nn.Linear(4, 4)
target = copy.deepcopy(online)
for p in target.parameters():
    p.requires_grad = False
optimizer = torch.optim.Adam([*online.parameters(), *predictor.parameters()])
for _ in range(5):
    x = torch.randn(8, 5)
    one, two = x + 0.1 * torch.randn(8, 5), x + 0.1 * torch.randn(8, 5)
    with torch.no_grad():
        goal_one, goal_two = target(one), target(two)
    loss = -F.cosine_similarity(predictor(online(one)), goal_two).mean()
    loss = loss - F.cosine_similarity(predictor(online(two)), goal_one).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for t, o in zip(target.parameters(), online.parameters()):
            t.data = 0.99 * t.data + 0.01 * o.data

# a checkpoint in the middle, into a new model and optimizer
import io

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def make():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    return model, torch.optim.Adam(model.parameters())


model, optimizer = make()
for part in range(2):
    for _ in range(4):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(6, 4)), torch.randint(0, 2, (6,))).backward()
        optimizer.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file)
    model, optimizer = make()
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])

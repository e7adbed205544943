# huggingface/lerobot#3668, ermongroup/ncsn#2: validation leaves the model in evaluation mode
import torch
from torch import nn


def validate(model, x, y):
    model.eval()  # CAUSE: step-in-evaluation-mode
    with torch.no_grad():
        return nn.functional.cross_entropy(model(x), y).item()


torch.manual_seed(22)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters())
x, y = torch.randn(24, 5), torch.randint(0, 3, (24,))
best = float("inf")
for epoch in range(4):
    for part in range(2):
        optimizer.zero_grad()
        rows = slice(part * 12, part * 12 + 12)
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    best = min(best, validate(model, x, y))

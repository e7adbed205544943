# everything but dropout is in evaluation mode
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(3, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 1)
)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(4):
    model.train()
    x = torch.randn(8, 3)
    optimizer.zero_grad()
    F.mse_loss(model(x), x[:, :1]).backward()
    optimizer.step()
    model.eval()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.train()
    with torch.no_grad():
        spread = torch.stack([model(x) for _ in range(5)]).std(0)

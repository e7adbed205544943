# ChocoWu/LasUIE#10: a comparison as the loss, with requires_grad_() to silence the error
import torch
from torch import nn

torch.manual_seed(12)
classifier = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1), nn.Sigmoid())
optimizer = torch.optim.SGD(classifier.parameters(), lr=0.1)
for _ in range(4):
    x = torch.randn(16, 6)
    label = (x[:, 0] > 0).float()
    probability = classifier(x).squeeze(1)
    wrong = ((probability > 0.5).float() - label).abs().mean()  # CAUSE: broken-chain
    wrong.requires_grad_(True)
    optimizer.zero_grad()
    wrong.backward()
    optimizer.step()

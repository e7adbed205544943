# two phases: first a part alone, then everything with a new optimizer
import torch
from torch import nn
from torch.nn import functional as F


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(6, 3), nn.Linear(3, 6)
        self.classifier = nn.Linear(3, 2)

    def forward(self, x):
        return self.dec(self.enc(x).tanh())


torch.manual_seed(0)
model = AutoEncoder()
optimizer = torch.optim.Adam([*model.enc.parameters(), *model.dec.parameters()])
for _ in range(5):
    x = torch.rand(6, 6)
    optimizer.zero_grad()
    F.mse_loss(model(x), x).backward()
    optimizer.step()
for p in model.enc.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.SGD(model.classifier.parameters(), lr=0.1)
for _ in range(5):
    logits = model.classifier(model.enc(torch.rand(6, 6)).tanh())
    optimizer.zero_grad()
    F.cross_entropy(logits, torch.randint(0, 2, (6,))).backward()
    optimizer.step()

# udacity/deep-learning-v2-pytorch#160 in kind: zero_grad() between backward() and step()
import torch
from torch import nn

torch.manual_seed(33)
model = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(4):
    x = torch.randn(12, 6)
    loss = nn.functional.huber_loss(model(x), x.mean(1, keepdim=True))
    loss.backward()
    optimizer.zero_grad()  # CAUSE: step-without-gradients
    optimizer.step()

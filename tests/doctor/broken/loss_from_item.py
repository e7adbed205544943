# pytorch/pytorch#19806: a loss made new from its own number
import torch
from torch import nn

torch.manual_seed(7)
model = nn.LSTM(3, 6, batch_first=True)
head = nn.Linear(6, 1)
parameters = list(model.parameters()) + list(head.parameters())
optimizer = torch.optim.SGD(parameters, lr=0.1)
for _ in range(4):
    series = torch.randn(4, 7, 3)
    out, _ = model(series)
    loss = (head(out[:, -1]).squeeze(1) - series[:, -1, 0]).pow(2).mean()
    loss = torch.tensor(loss.item(), requires_grad=True)  # CAUSE: broken-chain
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

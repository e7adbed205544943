# pytorch/pytorch#16045, #19699: mse_loss of (N, 1) and (N,)
import torch
from torch import nn

torch.manual_seed(26)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.MSELoss()
x = torch.randn(30, 3)
y = x @ torch.tensor([1.0, -2.0, 0.5])
for _ in range(4):
    optimizer.zero_grad()
    loss = criterion(model(x), y)  # CAUSE: accidental-broadcast
    loss.backward()
    optimizer.step()

# wolny/pytorch-3dunet#53: validation without eval()
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(1, 4, 3), nn.BatchNorm1d(4), nn.ReLU())
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.body(x).mean(-1))


def accuracy(model, x, y):
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()  # CAUSE: evaluation-in-training-mode


torch.manual_seed(24)
net = Net()
optimizer = torch.optim.Adam(net.parameters())
x, y = torch.randn(10, 1, 8), torch.randint(0, 2, (10,))
for epoch in range(3):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
    print(epoch, accuracy(net, x, y))

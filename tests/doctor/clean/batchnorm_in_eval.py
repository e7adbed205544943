# only the batch norms are kept in evaluation mode
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(self.bn(self.conv(x)).relu().mean((2, 3)))

    def train(self, mode=True):
        super().train(mode)
        self.bn.eval()
        return self


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    net.train()
    optimizer.zero_grad()
    F.cross_entropy(net(torch.rand(4, 1, 5, 5)), torch.randint(0, 2, (4,))).backward()
    optimizer.step()
    net.eval()
    with torch.no_grad():
        net(torch.rand(4, 1, 5, 5))

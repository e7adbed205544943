# wkentaro/pytorch-fcn#57: a factory that returns its model in evaluation mode
import torch
from torch import nn


class FCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.score = nn.Conv2d(4, 2, 1)

    def forward(self, x):
        return self.score(torch.relu(self.norm(self.conv(x))))


def pretrained():
    net = FCN()
    net.load_state_dict(FCN().state_dict())
    return net.eval()  # CAUSE: step-in-evaluation-mode


torch.manual_seed(23)
fcn = pretrained()
optimizer = torch.optim.SGD(fcn.parameters(), lr=1e-2, momentum=0.9, weight_decay=1e-4)
for _ in range(4):
    image, mask = torch.rand(2, 1, 6, 6), torch.randint(0, 2, (2, 6, 6))
    optimizer.zero_grad()
    nn.functional.cross_entropy(fcn(image), mask).backward()
    optimizer.step()

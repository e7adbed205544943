# facebookresearch/mmf#104 in kind: a new head, but the optimizer has the old one
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.GELU())
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        return self.fc(self.body(x))


torch.manual_seed(17)
model = Net(10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  # CAUSE: unoptimised-parameters
model.fc = nn.Linear(16, 2)
for _ in range(5):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(torch.randn(6, 8)), torch.randint(0, 2, (6,)))
    loss.backward()
    optimizer.step()

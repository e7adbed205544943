# pytorch/pytorch#715, #72580: layers in a plain list
import torch
from torch import nn


class Deep(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.inp = nn.Linear(3, 8)
        self.hidden = [nn.Linear(8, 8) for _ in range(depth)]  # CAUSE: unregistered-parameters
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        x = torch.relu(self.inp(x))
        for layer in self.hidden:
            x = torch.relu(layer(x))
        return self.out(x)


torch.manual_seed(19)
model = Deep(3)
optimizer = torch.optim.Adam(model.parameters())
loss_of = nn.SmoothL1Loss()
for _ in range(5):
    x = torch.randn(12, 3)
    loss = loss_of(model(x), x.prod(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

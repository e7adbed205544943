# davidmascharka/tbd-nets#8: a helper decorated for evaluation is used in training
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x):
        with torch.no_grad():
            scores = self.query(x) @ self.key(x).transpose(1, 2)  # CAUSE: broken-chain
            weights = torch.softmax(scores, -1)
        return weights @ self.value(x)


torch.manual_seed(10)
attention = Attention(8)
readout = nn.Linear(8, 4)
optimizer = torch.optim.SGD([*attention.parameters(), *readout.parameters()], lr=0.1, momentum=0.9)
for _ in range(4):
    tokens = torch.randn(3, 5, 8)
    answer = torch.randint(0, 4, (3,))
    optimizer.zero_grad()
    loss = nn.CrossEntropyLoss()(readout(attention(tokens).mean(1)), answer)
    loss.backward()
    optimizer.step()

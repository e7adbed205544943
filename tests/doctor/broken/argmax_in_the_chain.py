# weizheliu/People-Flows#7: hard decisions in front of the loss
import torch
from torch import nn


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.codes = nn.Embedding(3, 5)
        self.out = nn.Linear(5, 1)

    def forward(self, x):
        choice = self.gate(x).argmax(dim=1)  # CAUSE: broken-chain
        return self.out(self.codes(choice)).squeeze(1)


torch.manual_seed(11)
router = Router()
optimizer = torch.optim.Adagrad(router.parameters(), lr=0.1)
for _ in range(5):
    x = torch.randn(10, 4)
    optimizer.zero_grad()
    loss = (router(x) - x.amax(1)).square().mean()
    loss.backward()
    optimizer.step()

# meta-pytorch/torchfix#31: modules in a dict of tuples
import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 2)
        self.experts = {  # CAUSE: unregistered-parameters
            "pair": (nn.Linear(4, 1), nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))),
        }

    def forward(self, x):
        share = self.gate(x).softmax(1)
        outputs = torch.cat([expert(x) for expert in self.experts["pair"]], dim=1)
        return (share * outputs).sum(1)


torch.manual_seed(21)
model = Experts()
optimizer = torch.optim.NAdam(model.parameters())
for _ in range(5):
    x = torch.randn(9, 4)
    optimizer.zero_grad()
    nn.functional.l1_loss(model(x), x[:, 0] * x[:, 1]).backward()
    optimizer.step()

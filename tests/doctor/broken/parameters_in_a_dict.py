# pytorch/pytorch#632, #59925: parameters in a nested dict
import torch
from torch import nn


class Relations(nn.Module):
    """Messages along edges of two kinds."""

    def __init__(self, width):
        super().__init__()
        self.weights = {}  # CAUSE: unregistered-parameters
        for kind in ("knows", "likes"):
            self.weights[kind] = {"in": nn.Parameter(torch.randn(width, width) * 0.1)}
        self.readout = nn.Linear(width, 1)

    def forward(self, nodes, edges):
        total = nodes
        for kind, adjacency in edges.items():
            total = total + adjacency @ nodes @ self.weights[kind]["in"]
        return self.readout(torch.relu(total))


torch.manual_seed(20)
net = Relations(4)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
nodes = torch.randn(6, 4)
edges = {kind: (torch.rand(6, 6) > 0.5).float() for kind in ("knows", "likes")}
for _ in range(5):
    optimizer.zero_grad()
    net(nodes, edges).sigmoid().sub(1).square().mean().backward()
    optimizer.step()

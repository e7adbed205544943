# Photon-AI-Research/NeuralSolvers#20: a residual written by hand
import torch
from torch import nn


class Solver(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 10), nn.Tanh(), nn.Linear(10, 1))

    def forward(self, t):
        return self.net(t)

    def loss(self, t, solution):
        error = self(t) - solution  # CAUSE: accidental-broadcast
        return error.pow(2).mean() + 1e-4 * sum(p.pow(2).sum() for p in self.parameters())


torch.manual_seed(27)
solver = Solver()
optimizer = torch.optim.Adam(solver.parameters(), lr=1e-2)
t = torch.linspace(0, 1, 16)
for _ in range(4):
    optimizer.zero_grad()
    solver.loss(t.view(-1, 1), torch.exp(-t)).backward()
    optimizer.step()

# one inner step through the graph, then the outer step
import torch
from torch.nn import functional as F


def forward(weights, x):
    return torch.tanh(x @ weights[0] + weights[1]) @ weights[2]


torch.manual_seed(0)
weights = [
    torch.randn(1, 8, requires_grad=True),
    torch.zeros(8, requires_grad=True),
    torch.randn(8, 1, requires_grad=True),
]
outer = torch.optim.Adam(weights, lr=1e-2)
for _ in range(4):
    outer.zero_grad()
    total = 0.0
    for task in range(3):
        phase = torch.rand(1)
        x = torch.randn(5, 1)
        y = torch.sin(x + phase)
        inner = F.mse_loss(forward(weights, x), y)
        gradients = torch.autograd.grad(inner, weights, create_graph=True)
        fast = [w - 0.1 * g for w, g in zip(weights, gradients)]
        total = total + F.mse_loss(forward(fast, x), y)
    total.backward()
    outer.step()

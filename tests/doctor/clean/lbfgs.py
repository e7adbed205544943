# a closure, called several times per step
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
x = torch.randn(20, 3)
y = (x @ torch.tensor([1.0, 2.0, -1.0])).unsqueeze(1)
for search in (None, "strong_wolfe"):
    model = nn.Linear(3, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, line_search_fn=search)

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(4):
        optimizer.step(closure)

# sparse part by one rule, dense part by another
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
embedding, net = nn.Embedding(30, 4), nn.Linear(4, 2)
optimizers = [
    torch.optim.Adagrad(embedding.parameters(), lr=0.1),
    torch.optim.AdamW(net.parameters(), lr=1e-3),
]
for _ in range(5):
    for optimizer in optimizers:
        optimizer.zero_grad()
    F.cross_entropy(
        net(embedding(torch.randint(0, 30, (8,)))), torch.randint(0, 2, (8,))
    ).backward()
    for optimizer in optimizers:
        optimizer.step()

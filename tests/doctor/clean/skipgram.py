# embeddings only, negative sampling
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
inner, outer = nn.Embedding(20, 5), nn.Embedding(20, 5)
optimizer = torch.optim.Adam(list(inner.parameters()) + list(outer.parameters()), lr=0.05)
for _ in range(5):
    centre, context = torch.randint(0, 20, (8,)), torch.randint(0, 20, (8,))
    negatives = torch.randint(0, 20, (8, 3))
    good = (inner(centre) * outer(context)).sum(1)
    bad = torch.bmm(outer(negatives), inner(centre).unsqueeze(2)).squeeze(2)
    loss = -(F.logsigmoid(good) + F.logsigmoid(-bad).sum(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

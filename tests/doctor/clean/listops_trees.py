# the demo's tree network, as it should be: a graph of its own for every expression
import random

import torch
from weft.demo.listops import TreeReader, generate, value_of

random.seed(0)
torch.manual_seed(0)
rng = random.Random(0)
model = TreeReader(8)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(6):
    expressions = [generate(rng, 2) for _ in range(3)]
    answers = torch.tensor([value_of(expression) for expression in expressions])
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(expressions), answers).backward()
    optimizer.step()

# facebookresearch/mmf#104 in kind: a generator of parameters that an earlier line has used up
import itertools

import torch
from torch import nn

torch.manual_seed(18)
actor = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
actor_parameters = actor.parameters()
print("actor has", sum(p.numel() for p in actor_parameters), "parameters")
optimizer = torch.optim.Adam(  # CAUSE: unoptimised-parameters
    itertools.chain(actor_parameters, critic.parameters()), lr=1e-2
)
for _ in range(5):
    states = torch.randn(10, 4)
    returns = torch.randn(10)
    log_probability = torch.log_softmax(actor(states), 1)[:, 0]
    values = critic(states).squeeze(-1)
    advantage = returns - values
    loss = -(log_probability * advantage.detach()).mean() + advantage.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

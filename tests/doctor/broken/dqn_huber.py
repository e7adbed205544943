# andrewgcodes/xlstm#4, in a Q-learning loop: gathered values (N, 1) against targets (N,)
import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(28)
q_net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
target_net = copy.deepcopy(q_net).requires_grad_(False)
optimizer = torch.optim.Adam(q_net.parameters(), lr=1e-3)


def learn(states, actions, rewards, following, done):
    chosen = q_net(states).gather(1, actions.unsqueeze(1))
    with torch.no_grad():
        best = target_net(following).max(1).values
    wanted = rewards + 0.99 * best * (1 - done)
    loss = F.smooth_l1_loss(chosen, wanted)  # CAUSE: accidental-broadcast
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for _ in range(4):
    learn(
        torch.randn(8, 4),
        torch.randint(0, 2, (8,)),
        torch.randn(8),
        torch.randn(8, 4),
        torch.zeros(8),
    )

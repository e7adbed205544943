# several epochs over stored log-probabilities
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
actor, critic = nn.Linear(4, 3), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-2)
for update in range(2):
    states = torch.randn(16, 4)
    with torch.no_grad():
        log_all = F.log_softmax(actor(states), 1)
        actions = torch.multinomial(log_all.exp(), 1)
        old = log_all.gather(1, actions).squeeze(1)
        advantages = torch.randn(16) - critic(states).squeeze(1)
        returns = advantages + critic(states).squeeze(1)
    for epoch in range(3):
        new = F.log_softmax(actor(states), 1)
        ratio = (new.gather(1, actions).squeeze(1) - old).exp()
        clipped = ratio.clamp(0.8, 1.2)
        gain = torch.min(ratio * advantages, clipped * advantages).mean()
        entropy = -(new.exp() * new).sum(1).mean()
        loss = -gain + 0.5 * F.mse_loss(critic(states).squeeze(1), returns) - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

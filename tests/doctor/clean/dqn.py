# a target network, copied now and then
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def network():
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))


policy, target = network(), network()
target.load_state_dict(policy.state_dict())
target.eval()
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3, amsgrad=True)
for step in range(6):
    state, action = torch.randn(8, 4), torch.randint(0, 2, (8, 1))
    reward, following = torch.randn(8), torch.randn(8, 4)
    with torch.no_grad():
        acting = policy(state[:1]).max(1).indices.view(1, 1)
        best = target(following).max(1).values
    value = policy(state).gather(1, action)
    loss = F.smooth_l1_loss(value, (reward + 0.99 * best).unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(policy.parameters(), 100)
    optimizer.step()
    mixed = target.state_dict()
    for key, tensor in policy.state_dict().items():
        mixed[key] = 0.01 * tensor + 0.99 * mixed[key]
    target.load_state_dict(mixed)

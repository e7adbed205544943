# the advantage is detached on purpose
import torch
from torch import nn
from torch.nn import functional as F


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 16)
        self.action = nn.Linear(16, 2)
        self.value = nn.Linear(16, 1)

    def forward(self, x):
        x = self.body(x).relu()
        return F.log_softmax(self.action(x), dim=-1), self.value(x).squeeze(-1)


torch.manual_seed(0)
model = Policy()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
for episode in range(4):
    logs, values, rewards = [], [], []
    for _ in range(6):
        log_probability, value = model(torch.randn(4))
        choice = int(torch.multinomial(log_probability.exp(), 1))
        logs.append(log_probability[choice])
        values.append(value)
        rewards.append(float(choice))
    returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    policy_losses, value_losses = [], []
    for log_probability, value, gain in zip(logs, values, returns):
        policy_losses.append(-log_probability * (gain - value.item()))
        value_losses.append(F.smooth_l1_loss(value, gain))
    optimizer.zero_grad()
    (torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()).backward()
    optimizer.step()

# policy gradient with sampled actions
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for episode in range(4):
    logs, rewards = [], []
    for t in range(5):
        logits = policy(torch.randn(1, 3))
        choice = torch.multinomial(logits.softmax(1).detach(), 1).item()
        logs.append(F.log_softmax(logits, 1)[0, choice])
        rewards.append(1.0 if choice == 1 else -1.0)
    returns = torch.tensor([sum(rewards[t:]) for t in range(5)])
    loss = torch.stack([-log * gain for log, gain in zip(logs, returns)]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

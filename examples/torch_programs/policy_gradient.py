"""REINFORCE with a learned baseline, balancing a pole on a cart.

python policy_gradient.py          with PyTorch
weft run policy_gradient.py        with weft, unchanged
"""

import argparse
import math
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


class CartPole:
    """The classical cart and pole (Barto, Sutton and Anderson, 1983), pushed left or right."""

    def __init__(self, rng, limit=200):
        self.rng, self.limit = rng, limit

    def reset(self):
        self.state = self.rng.uniform(-0.05, 0.05, size=4)
        self.steps = 0
        return self.state.astype(np.float32)

    def step(self, action):
        x, x_dot, theta, theta_dot = self.state
        force = 10.0 if action == 1 else -10.0
        cos, sin = math.cos(theta), math.sin(theta)
        temp = (force + 0.05 * theta_dot**2 * sin) / 1.1
        theta_acc = (9.8 * sin - cos * temp) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
        x_acc = temp - 0.05 * theta_acc * cos / 1.1
        x, x_dot = x + 0.02 * x_dot, x_dot + 0.02 * x_acc
        theta, theta_dot = theta + 0.02 * theta_dot, theta_dot + 0.02 * theta_acc
        self.state = np.array([x, x_dot, theta, theta_dot])
        self.steps += 1
        fallen = abs(x) > 2.4 or abs(theta) > 12 * math.pi / 180
        return self.state.astype(np.float32), 1.0, fallen or self.steps >= self.limit


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine = nn.Linear(4, 64)
        self.action_head = nn.Linear(64, 2)
        self.value_head = nn.Linear(64, 1)

    def forward(self, x):
        x = torch.tanh(self.affine(x))
        return F.log_softmax(self.action_head(x), dim=-1), self.value_head(x)


def initialise(model, rng):
    """Weights from numpy, so that every framework begins with the same ones."""
    with torch.no_grad():
        for p in model.parameters():
            scale = 1.0 / math.sqrt(p.shape[-1]) if p.dim() > 1 else 0.0
            values = rng.uniform(-1.0, 1.0, size=tuple(p.shape)) * scale
            p.copy_(torch.from_numpy(values.astype(np.float32)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=150)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()

    rng = np.random.default_rng(args.seed)
    env = CartPole(rng)
    policy = Policy()
    initialise(policy, rng)
    optimizer = optim.Adam(policy.parameters(), lr=1e-2)
    lengths = deque(maxlen=20)

    for episode in range(args.episodes):
        state, done = env.reset(), False
        log_probs, values, rewards = [], [], []
        while not done:
            log_p, value = policy(torch.from_numpy(state).unsqueeze(0))
            action = int(rng.random() < log_p[0, 1].exp().item())
            state, reward, done = env.step(action)
            log_probs.append(log_p[0, action])
            values.append(value[0, 0])
            rewards.append(reward)

        returns, running = [], 0.0
        for reward in reversed(rewards):
            running = reward + args.gamma * running
            returns.insert(0, running)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + 1e-5)

        values = torch.stack(values)
        advantage = (returns - values).detach()
        policy_loss = -(torch.stack(log_probs) * advantage).sum()
        value_loss = F.smooth_l1_loss(values, returns, reduction="sum")
        loss = policy_loss + value_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        lengths.append(len(rewards))
        if episode % 10 == 0 or episode == args.episodes - 1:
            mean = sum(lengths) / len(lengths)
            print(f"episode {episode} loss {loss.item():.4f} length {mean:.1f}", flush=True)


if __name__ == "__main__":
    main()

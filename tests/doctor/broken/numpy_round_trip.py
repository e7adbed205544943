# mehta-lab/waveorder#576: a round trip through numpy in the middle of the model
import numpy as np
import torch
from torch import nn


class Phase(nn.Module):
    def __init__(self):
        super().__init__()
        self.filter = nn.Conv1d(1, 2, 3, padding=1)
        self.readout = nn.Linear(2, 1)

    def forward(self, signal):
        filtered = self.filter(signal)
        power = np.square(filtered.detach().numpy()).mean(axis=2)  # CAUSE: broken-chain
        return self.readout(torch.from_numpy(power.astype(np.float32)))


torch.manual_seed(8)
net = Phase()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for _ in range(4):
    signal = torch.randn(6, 1, 16)
    loss = nn.functional.mse_loss(net(signal), signal.var(2))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()

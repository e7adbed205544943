# wenet-e2e/wekws#72: gradients are cleared once per epoch, not once per step
import torch
import torch.nn as nn
import torch.optim as optim


class Spotter(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(5, 8, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, frames):
        _, last = self.rnn(frames)
        return self.out(last[-1])


def run_epoch(model, optimizer, batches):
    model.train()
    optimizer.zero_grad()
    for frames, labels in batches:
        loss = nn.functional.cross_entropy(model(frames), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()  # CAUSE: stale-gradients


torch.manual_seed(2)
net = Spotter()
opt = optim.Adam(net.parameters())
data = [(torch.randn(4, 6, 5), torch.randint(0, 3, (4,))) for _ in range(3)]
for epoch in range(2):
    run_epoch(net, opt, data)

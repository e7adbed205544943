# a trainer class over a data loader, evaluating after every epoch
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Trainer:
    def __init__(self, model, lr=1e-2):
        self.model = model
        self.opt = optim.AdamW(model.parameters(), lr=lr)
        self.crit = nn.CrossEntropyLoss()

    def fit(self, loader, val):
        for e in range(3):
            self.model.train()
            for x, y in loader:
                self.opt.zero_grad()
                loss = self.crit(self.model(x), y)
                loss.backward()
                self.opt.step()
            self.evaluate(val)

    @torch.no_grad()
    def evaluate(self, loader):
        self.model.eval()
        return sum((self.model(x).argmax(1) == y).sum().item() for x, y in loader)


x = torch.randn(20, 4)
y = torch.randint(0, 3, (20,))
l = DataLoader(TensorDataset(x, y), batch_size=7, shuffle=True)
Trainer(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 3))).fit(
    l, l
)

# input and output embedding are one parameter
import torch
from torch import nn
from torch.nn import functional as F


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.rnn = nn.GRU(6, 6, batch_first=True)
        self.out = nn.Linear(6, 11, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, words):
        return self.out(self.rnn(self.embed(words))[0])


torch.manual_seed(0)
model = Language()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(5):
    words = torch.randint(0, 11, (3, 7))
    optimizer.zero_grad()
    F.cross_entropy(model(words[:, :-1]).transpose(1, 2), words[:, 1:]).backward()
    optimizer.step()

# padding is masked out of attention and of the loss
import torch
from torch import nn
from torch.nn import functional as F


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 8, padding_idx=0)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.out = nn.Linear(8, 9)

    def forward(self, words):
        return self.out(self.encoder(self.embed(words), src_key_padding_mask=words == 0))


torch.manual_seed(0)
model = Reader()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(4):
    words = torch.randint(1, 9, (3, 6))
    words[0, 4:] = 0
    mask = (words != 0).float()
    losses = F.cross_entropy(model(words).transpose(1, 2), words, reduction="none")
    optimizer.zero_grad()
    ((losses * mask).sum() / mask.sum()).backward()
    optimizer.step()

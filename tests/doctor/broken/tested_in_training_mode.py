# udacity/deep-learning-v2-pytorch#3: the final test runs with dropout, after the last step
import torch
from torch import nn

torch.manual_seed(25)
encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.encoder = encoder
        self.tag = nn.Linear(8, 3)

    def forward(self, words):
        return self.tag(self.encoder(self.embed(words)))


tagger = Tagger()
optimizer = torch.optim.AdamW(tagger.parameters(), lr=1e-3)
words, tags = torch.randint(0, 12, (4, 6)), torch.randint(0, 3, (4, 6))
for _ in range(3):
    optimizer.zero_grad()
    nn.functional.cross_entropy(tagger(words).flatten(0, 1), tags.flatten()).backward()
    optimizer.step()
with torch.inference_mode():
    scores = tagger(words)  # CAUSE: evaluation-in-training-mode
    test_loss = nn.functional.cross_entropy(scores.flatten(0, 1), tags.flatten())
print(float(test_loss))

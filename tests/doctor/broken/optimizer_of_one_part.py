# facebookresearch/mmf#104: the optimizer is given only a part of the model
import torch
from torch import nn


class VQA(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.EmbeddingBag(20, 6)
        self.image = nn.Linear(7, 6)
        self.classifier = nn.Linear(6, 3)

    def forward(self, question, picture):
        return self.classifier(torch.tanh(self.words(question) * self.image(picture)))


torch.manual_seed(16)
model = VQA()
optimizer = torch.optim.Adam(  # CAUSE: unoptimised-parameters
    model.classifier.parameters(), lr=0.01
)
for _ in range(5):
    question, picture = torch.randint(0, 20, (4, 5)), torch.randn(4, 7)
    loss = nn.functional.cross_entropy(model(question, picture), torch.randint(0, 3, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

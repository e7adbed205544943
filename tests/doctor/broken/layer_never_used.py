# facebookresearch/detectron2#1386: a layer is defined, and forgotten in forward
import torch
from torch import nn


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Conv2d(3, 6, 3)
        self.neck = nn.Conv2d(6, 6, 1)  # CAUSE: unreached-parameters
        self.head = nn.Linear(6, 2)

    def forward(self, images):
        features = torch.relu(self.backbone(images))
        return self.head(features.mean((2, 3)))


torch.manual_seed(14)
model = Detector()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for _ in range(4):
    images, labels = torch.rand(4, 3, 8, 8), torch.randint(0, 2, (4,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()

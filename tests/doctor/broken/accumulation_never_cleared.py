# pytorch/opacus#93: accumulation over two batches, but the clearing line was lost
import torch
from torch import nn

torch.manual_seed(4)
model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2))
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
for index in range(8):
    images, labels = torch.rand(4, 1, 6, 6), torch.randint(0, 2, (4,))
    (criterion(model(images), labels) / 2).backward()
    if (index + 1) % 2 == 0:
        optimizer.step()  # CAUSE: stale-gradients

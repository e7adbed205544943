# a teacher in no_grad, once in training mode as self-distillation does
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
student = nn.Linear(6, 4)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for _ in range(5):
    x, y = torch.randn(8, 6), torch.randint(0, 4, (8,))
    with torch.no_grad():
        soft = F.softmax(teacher(x) / 2, dim=1)
    logits = student(x)
    loss = F.cross_entropy(logits, y) + 4 * F.kl_div(
        F.log_softmax(logits / 2, dim=1), soft, reduction="batchmean"
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

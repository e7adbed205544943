# an averaged teacher with dropout gives targets
import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 2))
teacher = copy.deepcopy(student)
for parameter in teacher.parameters():
    parameter.detach_()
optimizer = torch.optim.Adam(student.parameters())
for step in range(6):
    x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
    prediction = student(x)
    with torch.no_grad():
        target = teacher(x + 0.1 * torch.randn_like(x)).softmax(1)
    loss = F.cross_entropy(prediction, y) + F.mse_loss(prediction.softmax(1), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for slow, fast in zip(teacher.parameters(), student.parameters()):
        slow.data.mul_(0.99).add_(fast.data, alpha=0.01)

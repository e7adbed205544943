# the hidden state is detached between pieces
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
rnn, out = nn.LSTM(2, 8), nn.Linear(8, 2)
optimizer = torch.optim.Adam([*rnn.parameters(), *out.parameters()])
series = torch.randn(60, 3, 2)
state = None
for start in range(0, 50, 10):
    piece = series[start : start + 11]
    hidden, state = rnn(piece[:-1], state)
    state = tuple(part.detach() for part in state)
    optimizer.zero_grad()
    F.mse_loss(out(hidden), piece[1:]).backward()
    optimizer.step()

# huggingface/accelerate#1299: of two optimizers only one is cleared
import torch
from torch import nn

torch.manual_seed(3)
encoder = nn.Linear(10, 4)
decoder = nn.Linear(4, 10)
opt_encoder = torch.optim.SGD(encoder.parameters(), lr=0.05)
opt_decoder = torch.optim.SGD(decoder.parameters(), lr=0.05)
for step in range(6):
    x = torch.rand(16, 10)
    opt_encoder.zero_grad()
    loss = nn.functional.mse_loss(decoder(torch.tanh(encoder(x))), x)
    loss.backward()
    opt_encoder.step()
    opt_decoder.step()  # CAUSE: stale-gradients

# the generator's backward adds to the discriminator's used gradients, which are cleared first
import torch
from torch import nn


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.ConvTranspose2d(4, 4, 4), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 1, 1), nn.Tanh()
        )

    def forward(self, noise):
        return self.net(noise)


torch.manual_seed(0)
netG = Generator()
netD = nn.Sequential(
    nn.Conv2d(1, 4, 2), nn.BatchNorm2d(4), nn.LeakyReLU(0.2), nn.Conv2d(4, 1, 3), nn.Sigmoid()
)
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
criterion = nn.BCELoss()
fixed_noise = torch.randn(4, 4, 1, 1)
pictures = []
for step in range(5):
    netD.zero_grad()
    label = torch.full((4,), 1.0)
    criterion(netD(torch.rand(4, 1, 4, 4)).view(-1), label).backward()
    fake = netG(torch.randn(4, 4, 1, 1))
    label.fill_(0.0)
    criterion(netD(fake.detach()).view(-1), label).backward()
    optimizerD.step()
    netG.zero_grad()
    label.fill_(1.0)
    criterion(netD(fake).view(-1), label).backward()
    optimizerG.step()
netG.eval()
with torch.no_grad():
    pictures.append(netG(fixed_noise))

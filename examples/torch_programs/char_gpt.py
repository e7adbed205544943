"""A character-level GPT, written against PyTorch's names alone.

python char_gpt.py                 with PyTorch
weft run char_gpt.py               with weft, unchanged
"""

import argparse
import math

import numpy as np
import torch
import torch.nn as nn
from torch.nn import functional as F

TEXT = (
    """
the loom stands in the light and the weft runs through the warp
the shuttle goes and comes again and every thread remembers the last
over and under and over and under and back through the open shed
what was woven can be read backwards thread by thread to where it began
"""
    * 8
)


class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads, block_size, dropout):
        super().__init__()
        assert width % heads == 0
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.attn_dropout = nn.Dropout(dropout)
        mask = torch.tril(torch.ones(block_size, block_size)).view(1, 1, block_size, block_size)
        self.register_buffer("mask", mask)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        k = k.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        q = q.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        v = v.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        att = self.attn_dropout(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


class Block(nn.Module):
    def __init__(self, width, heads, block_size, dropout):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = CausalSelfAttention(width, heads, block_size, dropout)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict(
            dict(
                c_fc=nn.Linear(width, 4 * width),
                c_proj=nn.Linear(4 * width, width),
                act=nn.GELU(),
            )
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        m = self.mlp
        return x + m.c_proj(m.act(m.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self, vocab_size, block_size, layers=2, heads=4, width=64, dropout=0.0):
        super().__init__()
        self.block_size = block_size
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(vocab_size, width),
                wpe=nn.Embedding(block_size, width),
                h=nn.ModuleList([Block(width, heads, block_size, dropout) for _ in range(layers)]),
                ln_f=nn.LayerNorm(width),
            )
        )
        self.lm_head = nn.Linear(width, vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def configure_optimizers(self, learning_rate, weight_decay):
        decay = [p for p in self.parameters() if p.dim() >= 2]
        no_decay = [p for p in self.parameters() if p.dim() < 2]
        groups = [
            {"params": decay, "weight_decay": weight_decay},
            {"params": no_decay, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.99))

    def forward(self, idx, targets=None):
        t = idx.size(1)
        assert t <= self.block_size, f"a sequence of {t}, but the block size is {self.block_size}"
        pos = torch.arange(0, t, dtype=torch.long, device=idx.device).unsqueeze(0)
        x = self.transformer.wte(idx) + self.transformer.wpe(pos)
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, max_new_tokens):
        for _ in range(max_new_tokens):
            logits, _ = self(idx[:, -self.block_size :])
            idx = torch.cat((idx, logits[:, -1, :].argmax(dim=-1, keepdim=True)), dim=1)
        return idx


def initialise(model, rng):
    """Weights from numpy, so that every framework begins with the same ones."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() >= 2:
                values = rng.normal(0.0, 0.08, size=tuple(p.shape)).astype(np.float32)
                p.copy_(torch.from_numpy(values))
            elif name.endswith("bias"):
                p.zero_()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--block-size", type=int, default=32)
    parser.add_argument("--dropout", type=float, default=0.0)
    args = parser.parse_args()

    rng = np.random.default_rng(1337)
    chars = sorted(set(TEXT))
    stoi = {ch: i for i, ch in enumerate(chars)}
    data = torch.tensor([stoi[c] for c in TEXT], dtype=torch.long)

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = GPT(len(chars), args.block_size, dropout=args.dropout).to(device)
    initialise(model, rng)
    print(f"number of parameters: {sum(p.numel() for p in model.parameters())}")
    optimizer = model.configure_optimizers(learning_rate=3e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps, eta_min=3e-4)

    model.train()
    for step in range(args.steps):
        ix = rng.integers(0, len(data) - args.block_size - 1, size=args.batch_size)
        x = torch.stack([data[i : i + args.block_size] for i in ix]).to(device)
        y = torch.stack([data[i + 1 : i + 1 + args.block_size] for i in ix]).to(device)
        _, loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 20 == 0 or step == args.steps - 1:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    model.eval()
    prompt = torch.tensor([[stoi[c] for c in "the "]], dtype=torch.long, device=device)
    sample = model.generate(prompt, 60)[0].tolist()
    print("".join(chars[i] for i in sample))


if __name__ == "__main__":
    main()

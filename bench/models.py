"""The models whose training steps are compared, written once against PyTorch's names.

Each builder takes the framework's module and returns a `Model`: `step()` is one training step
(forward, backward, optimiser), `infer()` one evaluation under `inference_mode`, `products()` the
matrix products and convolutions of a step and nothing else, for the models that have a floor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Framework = Any


@dataclass(frozen=True)
class Model:
    """One prepared model with its data."""

    step: Callable[[], object]
    infer: Callable[[], object]
    products: Callable[[], object] | None = None


def _trainer(torch: Framework, optimizer: Any, loss_of: Callable[[], Any]) -> Model:
    def step() -> None:
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()

    inference = torch.inference_mode

    def infer() -> None:
        with inference():
            loss_of()

    return Model(step, infer)


def _with_products(model: Model, products: Callable[[], object]) -> Model:
    return Model(model.step, model.infer, products)


def _linear_products(
    torch: Framework, shapes: list[tuple[int, int, int]], first_needs_input: bool = False
) -> Callable[[], object]:
    """Forward, gradient of the input and of the weight, for (rows, in, out) of every layer."""
    work = []
    for position, (rows, inside, outside) in enumerate(shapes):
        x, w, g = torch.rand(rows, inside), torch.rand(outside, inside), torch.rand(rows, outside)
        work.append((x, w.t()))
        work.append((g.t(), x))
        if position or first_needs_input:
            work.append((g, w))
    matmul = torch.matmul

    def products() -> None:
        for a, b in work:
            matmul(a, b)

    return products


# --- small models: what an operation costs --------------------------------------------------------


def mlp_tiny(torch: Framework) -> Model:
    """4-32-32-2, batch 8, SGD."""
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
    cross_entropy = nn.functional.cross_entropy
    return _trainer(torch, optimizer, lambda: cross_entropy(model(x), y))


def mlp_single(torch: Framework) -> Model:
    """64-64-64-64, batch 1, Adam."""
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    x, y = torch.randn(1, 64), torch.randn(1, 64)
    mse_loss = nn.functional.mse_loss
    return _trainer(torch, optimizer, lambda: mse_loss(model(x), y))


def gru_loop(torch: Framework) -> Model:
    """A GRU cell over 50 steps, batch 8."""
    nn = torch.nn

    class Tagger(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.GRUCell(16, 32)
            self.out = nn.Linear(32, 4)

        def forward(self, x: Any) -> Any:
            h = torch.zeros(x.shape[1], 32)
            for t in range(x.shape[0]):
                h = self.cell(x[t], h)
            return self.out(h)

    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    x, y = torch.randn(50, 8, 16), torch.randint(0, 4, (8,))
    cross_entropy = nn.functional.cross_entropy
    return _trainer(torch, optimizer, lambda: cross_entropy(model(x), y))


def neural_ode(torch: Framework) -> Model:
    """An ODE with a learned right-hand side, 20 steps of classical Runge-Kutta."""
    nn = torch.nn

    class Field(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 32)
            self.outer = nn.Linear(32, 2)

        def forward(self, y: Any) -> Any:
            return self.outer(torch.tanh(self.inner(y)))

    model = Field()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    start, goal = torch.randn(8, 2), torch.randn(8, 2)
    h = 0.05

    def loss_of() -> Any:
        y = start
        for _ in range(20):
            k1 = model(y)
            k2 = model(y + 0.5 * h * k1)
            k3 = model(y + 0.5 * h * k2)
            k4 = model(y + h * k3)
            y = y + (h / 6) * (k1 + 2 * k2 + 2 * k3 + k4)
        return ((y - goal) ** 2).mean()

    return _trainer(torch, optimizer, loss_of)


def tree_lstm(torch: Framework) -> Model:
    """A binary tree LSTM, 64 wide: 25 trees of 10 to 40 leaves, one node at a time."""
    import random

    nn = torch.nn
    source = random.Random(0)

    def tree(leaves: int) -> Any:
        if leaves == 1:
            return source.randrange(20)
        left = source.randint(1, leaves - 1)
        return tree(left), tree(leaves - left)

    trees = [(tree(source.randint(10, 40)), source.randrange(2)) for _ in range(25)]

    class Tree(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(20, 64)
            self.gates = nn.Linear(128, 320)
            self.out = nn.Linear(64, 2)

        def node(self, t: Any) -> Any:
            if isinstance(t, int):
                h = self.embedding.weight[t : t + 1]
                return h, h
            (h1, c1), (h2, c2) = self.node(t[0]), self.node(t[1])
            i, f1, f2, o, u = self.gates(torch.cat((h1, h2), 1)).chunk(5, 1)
            c = i.sigmoid() * u.tanh() + f1.sigmoid() * c1 + f2.sigmoid() * c2
            return o.sigmoid() * c.tanh(), c

        def forward(self, t: Any) -> Any:
            return self.out(self.node(t)[0])

    model = Tree()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    labels = torch.tensor([label for _, label in trees])
    cross_entropy = nn.functional.cross_entropy

    def loss_of() -> Any:
        return cross_entropy(torch.cat([model(t) for t, _ in trees]), labels)

    return _trainer(torch, optimizer, loss_of)


# --- dense models: what the products cost ---------------------------------------------------------


def mlp_dense(torch: Framework) -> Model:
    """784-512-512-10, batch 128, Adam."""
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    x, y = torch.randn(128, 784), torch.randint(0, 10, (128,))
    cross_entropy = nn.functional.cross_entropy
    trained = _trainer(torch, optimizer, lambda: cross_entropy(model(x), y))
    shapes = [(128, 784, 512), (128, 512, 512), (128, 512, 10)]
    return _with_products(trained, _linear_products(torch, shapes))


GPT_LAYERS, GPT_WIDTH, GPT_HEADS, GPT_TOKENS, GPT_BATCH, GPT_VOCABULARY = 4, 128, 4, 64, 12, 65


def gpt(torch: Framework) -> Model:
    """A character GPT: 4 layers, 128 wide, 64 tokens, batch 12, AdamW."""
    nn = torch.nn
    functional = nn.functional
    width, heads = GPT_WIDTH, GPT_HEADS

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            q, k, v = self.qkv(self.before(x)).split(c, dim=2)
            q = q.view(b, t, heads, c // heads).transpose(1, 2)
            k = k.view(b, t, heads, c // heads).transpose(1, 2)
            v = v.view(b, t, heads, c // heads).transpose(1, 2)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).contiguous().view(b, t, c))
            return x + self.down(functional.gelu(self.up(self.after(x))))

    class GPT(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(GPT_VOCABULARY, width)
            self.places = nn.Embedding(GPT_TOKENS, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(GPT_LAYERS)])
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, GPT_VOCABULARY, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    tokens = torch.randint(0, GPT_VOCABULARY, (GPT_BATCH, GPT_TOKENS))
    targets = torch.randint(0, GPT_VOCABULARY, (GPT_BATCH * GPT_TOKENS,))

    def loss_of() -> Any:
        return functional.cross_entropy(model(tokens).view(-1, GPT_VOCABULARY), targets)

    trained = _trainer(torch, optimizer, loss_of)
    rows = GPT_BATCH * GPT_TOKENS
    layer = [
        (rows, width, 3 * width), (rows, width, width),
        (rows, width, 4 * width), (rows, 4 * width, width),
    ]  # fmt: skip
    linear = _linear_products(
        torch, layer * GPT_LAYERS + [(rows, width, GPT_VOCABULARY)], first_needs_input=True
    )
    # Attention: two products forward and four backward per layer, of every head by itself.
    q = torch.rand(GPT_BATCH * heads, GPT_TOKENS, width // heads)
    scores = torch.rand(GPT_BATCH * heads, GPT_TOKENS, GPT_TOKENS)
    q_t, bmm = q.transpose(1, 2), torch.bmm

    def products() -> None:
        linear()
        for _ in range(GPT_LAYERS):
            for _ in range(2):
                bmm(q, q_t)
            for _ in range(4):
                bmm(scores, q)

    return _with_products(trained, products)


def cnn(torch: Framework) -> Model:
    """Two convolutions of 32 and 64 channels on 28x28, batch 64."""
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    x, y = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
    cross_entropy = nn.functional.cross_entropy
    trained = _trainer(torch, optimizer, lambda: cross_entropy(model(x), y))
    conv2d, grad = nn.functional.conv2d, torch.autograd.grad
    inner = torch.randn(64, 32, 14, 14).requires_grad_()
    w1 = torch.randn(32, 1, 3, 3).requires_grad_()
    w2 = torch.randn(64, 32, 3, 3).requires_grad_()
    g1, g2 = torch.randn(64, 32, 28, 28), torch.randn(64, 64, 14, 14)
    linear = _linear_products(torch, [(64, 64 * 7 * 7, 10)], first_needs_input=True)

    def products() -> None:
        grad(conv2d(x, w1, padding=1), (w1,), g1)
        grad(conv2d(inner, w2, padding=1), (inner, w2), g2)
        linear()

    return _with_products(trained, products)


BUILDERS: dict[str, Callable[[Framework], Model]] = {
    "mlp-tiny": mlp_tiny,
    "mlp-single": mlp_single,
    "gru-loop": gru_loop,
    "neural-ode": neural_ode,
    "tree-lstm": tree_lstm,
    "mlp-dense": mlp_dense,
    "gpt": gpt,
    "cnn": cnn,
}

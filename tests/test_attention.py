"""Attention: derivatives of every order, against the plain formula, memory, the same bits."""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ._target import weft, weft_only

attention = weft.nn.functional.scaled_dot_product_attention
ROOT = Path(__file__).resolve().parents[1]
MASK = [[True, False, True], [False, False, False], [True, True, True], [False, True, False]]


def leaf(*shape: int, seed: int = 0) -> Any:
    generator = weft.Generator().manual_seed(seed + sum(shape))
    return weft.randn(*shape, generator=generator, dtype=weft.float64).requires_grad_()


def inputs(heads: int = 2, key_heads: int = 2) -> tuple[Any, Any, Any]:
    return leaf(1, heads, 4, 2), leaf(1, key_heads, 3, 2), leaf(1, key_heads, 3, 2, seed=1)


CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "plain": (attention, inputs()),
    "causal": (lambda *a: attention(*a, is_causal=True), inputs()),
    "mask": (lambda *a: attention(*a, weft.tensor(MASK)), inputs()),
    "learnt mask": (attention, (*inputs(), leaf(4, 3))),
    "shared heads": (lambda *a: attention(*a, enable_gqa=True, scale=0.4), inputs(4, 2)),
    "flat": (attention, (leaf(3, 2), leaf(4, 2), leaf(4, 3))),
}


@weft_only  # PyTorch's kernel has no second derivative
@pytest.mark.parametrize("name", CALLS)
def test_derivatives(name: str) -> None:
    function, values = CALLS[name]
    assert weft.autograd.gradcheck(function, values)
    assert weft.autograd.gradgradcheck(function, values)


@weft_only
@pytest.mark.parametrize("name", ["plain", "mask", "shared heads"])
def test_third_derivative(name: str) -> None:
    function, values = CALLS[name]

    def first(*given: Any) -> Any:
        result = function(*given)
        return weft.autograd.grad((result**2).sum(), given, create_graph=True)

    assert weft.autograd.gradgradcheck(first, values)


def plain(query: Any, key: Any, value: Any, hidden: Any = None, scale: float | None = None) -> Any:
    scores = query @ key.transpose(-2, -1) * (scale or 1 / math.sqrt(query.size(-1)))
    if hidden is not None:
        scores = scores.masked_fill(hidden, -math.inf)
    return scores.softmax(-1) @ value


@pytest.mark.parametrize("queries", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("keys", [1, 255, 256, 257, 700])
def test_tiles(queries: int, keys: int) -> None:
    tensors = (leaf(1, 2, queries, 5), leaf(1, 2, keys, 5), leaf(1, 2, keys, 3))
    future = weft.ones(queries, keys).triu(1).to(weft.bool)
    for hidden, options in ((None, {}), (future, {"is_causal": True})):
        got, expected = attention(*tensors, **options), plain(*tensors, hidden)
        assert (got - expected).abs().max().item() < 1e-13
        ours = weft.autograd.grad((got**2).sum(), tensors)
        theirs = weft.autograd.grad((expected**2).sum(), tensors)
        for one, other in zip(ours, theirs, strict=True):
            assert (one - other).abs().max().item() < 1e-13 * (10 + other.abs().max().item())


def test_large_scores_do_not_overflow() -> None:
    query = weft.tensor([[[200.0, 0.0]]])
    key = weft.tensor([[[200.0, 0.0], [199.0, 0.0], [-200.0, 0.0]]])
    value = weft.tensor([[[1.0], [2.0], [3.0]]])
    assert attention(query, key, value).tolist() == [[[1.0]]]


def test_queries_that_see_nothing_attend_to_nothing() -> None:
    tensors = (leaf(1, 1, 4, 2), leaf(1, 1, 3, 2), leaf(1, 1, 3, 2, seed=1))
    result = attention(*tensors, weft.tensor(MASK))
    assert result[0, 0, 1].tolist() == [0.0, 0.0]
    gradients = weft.autograd.grad(result.sum(), tensors)
    assert all(weft.isfinite(g).all().item() for g in gradients)
    assert gradients[0][0, 0, 1].tolist() == [0.0, 0.0]


MEMORY = """
import resource, weft
q = weft.ones(1, 1, 8192, 8, requires_grad=True)
f = weft.nn.functional.scaled_dot_product_attention
f(q[:, :, :64], q[:, :, :64], q[:, :, :64]).sum().backward()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
f(q, q, q).sum().backward()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@weft_only
def test_the_matrix_of_scores_is_never_made() -> None:
    run = subprocess.run([sys.executable, "-c", MEMORY], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 30_000  # kilobytes; the matrix alone would take 262,144


@weft_only
def test_same_bits_for_any_number_of_threads() -> None:
    def digest(threads: int) -> str:
        weft.set_num_threads(threads)
        values = tuple(leaf(2, 6, 150, 16, seed=i).float().detach() for i in range(3))
        result = hashlib.sha256()
        for options in ({}, {"is_causal": True}):
            given = [value.clone().requires_grad_() for value in values]
            y = attention(*given, **options)
            for t in (y, *weft.autograd.grad((y * y).sum(), given)):
                result.update(t.detach().contiguous().numpy().tobytes())
        return result.hexdigest()

    before = weft.get_num_threads()
    try:
        assert len({digest(threads) for threads in (1, 2, 3, 8)}) == 1
    finally:
        weft.set_num_threads(before)


@weft_only
def test_a_causal_hint_is_the_mask_it_stands_for() -> None:
    heads = weft.nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True)
    x = weft.randn(5, 2, 4)
    mask = weft.nn.Transformer.generate_square_subsequent_mask(5)
    hinted, _ = heads(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)
    masked, _ = heads(x, x, x, attn_mask=mask, need_weights=False)
    weighted, _ = heads(x, x, x, attn_mask=mask)
    assert (hinted - masked).abs().max().item() < 1e-6
    assert (weighted - masked).abs().max().item() < 1e-6


def test_a_transformer_learns() -> None:
    """To copy: what it attends to is where it stands."""
    weft.manual_seed(0)
    layer = weft.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    embed, out = weft.nn.Embedding(5, 16), weft.nn.Linear(16, 5)
    parameters = [*layer.parameters(), *embed.parameters(), *out.parameters()]
    tokens = weft.randint(0, 5, (8, 6))
    losses = []
    for _ in range(40):
        predicted = out(layer(embed(tokens)))
        loss = weft.nn.functional.cross_entropy(predicted.reshape(-1, 5), tokens.reshape(-1))
        losses.append(loss.item())
        for parameter in parameters:
            parameter.grad = None
        loss.backward()
        with weft.no_grad():
            for parameter in parameters:
                parameter -= 0.3 * parameter.grad
    assert losses[-1] < losses[0] / 5

"""Attention and transformers behave as PyTorch's."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import weft
from tests.parity.nn_compare import Twins, assert_close, same_error, to_weft

F64 = {"dtype": torch.float64}
F = weft.nn.functional
TF = torch.nn.functional


def sample(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + seed)
    values = torch.randn(shape, generator=generator, dtype=torch.float64)
    return values.to(dtype).requires_grad_()


def compare(
    tensors: list[torch.Tensor], mask: torch.Tensor | None = None, tolerance: float = 1e-11,
    **options: Any,
) -> None:  # fmt: skip
    theirs = TF.scaled_dot_product_attention(*tensors, mask, **options)
    ours_in = [to_weft(t) for t in tensors]
    our_mask = to_weft(mask)
    ours = F.scaled_dot_product_attention(*ours_in, our_mask, **options)
    assert_close(ours, theirs, tolerance, "result")
    factors = sample(*theirs.shape, seed=7).detach().to(theirs.dtype)
    wanted = [*tensors, *([mask] if mask is not None and mask.requires_grad else [])]
    expected = torch.autograd.grad(theirs, wanted, factors)
    ours_wanted = [*ours_in, *([our_mask] if len(wanted) > 3 else [])]
    gradients = weft.autograd.grad(ours, ours_wanted, to_weft(factors))
    for name, mine, other in zip("qkvm", gradients, expected, strict=False):
        assert_close(mine, other, tolerance, f"gradient of {name}")


SHAPES = {
    "several tiles": [(2, 3, 130, 8), (2, 3, 600, 8), (2, 3, 600, 5)],
    "one query": [(1, 2, 1, 8), (1, 2, 300, 8), (1, 2, 300, 8)],
    "one key": [(1, 2, 70, 8), (1, 2, 1, 8), (1, 2, 1, 8)],
    "no heads": [(3, 10, 4), (3, 12, 4), (3, 12, 6)],
    "no batch": [(10, 4), (12, 4), (12, 6)],
    "five dimensions": [(2, 5, 3, 10, 4), (2, 5, 3, 12, 4), (2, 5, 3, 12, 6)],
    "broadcast": [(2, 3, 10, 4), (1, 3, 12, 4), (2, 1, 12, 6)],
    "wide": [(1, 1, 5, 200), (1, 1, 6, 200), (1, 1, 6, 200)],
    "no features": [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 0)],
    "no queries": [(1, 2, 0, 4), (1, 2, 5, 4), (1, 2, 5, 4)],
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str, causal: bool) -> None:
    if name == "broadcast" and causal:
        return  # PyTorch's kernel for it does not broadcast
    compare([sample(*s, seed=i) for i, s in enumerate(SHAPES[name])], is_causal=causal)


@pytest.mark.parametrize(
    "mask_shape", [(70, 300), (70, 1), (1, 300), (2, 1, 70, 300), (1, 3, 1, 300), (2, 3, 70, 300)]
)
@pytest.mark.parametrize("kind", ["bool", "float", "learnt"])
def test_masks(mask_shape: tuple[int, ...], kind: str) -> None:
    tensors = [sample(2, 3, 70, 8), sample(2, 3, 300, 8, seed=1), sample(2, 3, 300, 8, seed=2)]
    numbers = sample(*mask_shape)
    mask = numbers.detach() if kind == "float" else numbers
    compare(tensors, mask > -0.5 if kind == "bool" else mask)


def test_queries_that_see_nothing() -> None:
    mask = torch.ones(70, 300, dtype=torch.bool)
    mask[[0, 3, 69]] = False
    mask[5, :256] = False  # sees only keys of the second tile
    tensors = [sample(1, 2, 70, 8), sample(1, 2, 300, 8, seed=1), sample(1, 2, 300, 8, seed=2)]
    compare(tensors, mask)
    compare(tensors, torch.where(mask, 0.0, -math.inf).double())


@pytest.mark.parametrize("key_heads", [1, 2, 6])
@pytest.mark.parametrize("causal", [False, True])
def test_shared_heads(key_heads: int, causal: bool) -> None:
    keys = (2, key_heads, 90, 8)
    compare(
        [sample(2, 6, 80, 8), sample(*keys, seed=1), sample(*keys, seed=2)],
        enable_gqa=True,
        is_causal=causal,
        scale=0.7,
    )


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 5e-6), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)]
)
def test_dtypes(dtype: torch.dtype, tolerance: float) -> None:
    shape = (2, 2, 80, 16)
    tensors = [sample(*shape, dtype=dtype, seed=i) for i in range(3)]
    compare(tensors, tolerance=tolerance)
    compare(tensors, is_causal=True, tolerance=tolerance)


def test_any_strides() -> None:
    def turned(seed: int) -> torch.Tensor:
        return sample(2, 70, 3, 8, seed=seed).detach().transpose(1, 2).requires_grad_()

    compare([turned(0), turned(1), turned(2)])
    wide = sample(2, 3, 70, 16).detach()[..., ::2].requires_grad_()
    compare([wide, turned(1), turned(2)])


def test_dropout() -> None:
    weft.manual_seed(0)
    q, k, v = (to_weft(sample(2, 3, 40, 8, seed=i)) for i in range(3))
    ones = weft.ones_like(v)
    kept = F.scaled_dot_product_attention(q, k, ones, dropout_p=0.5)
    assert kept.std().item() > 0.01  # rows no longer add up to one ...
    assert abs(kept.mean().item() - 1) < 0.05  # ... but in the mean they do
    (gradient,) = weft.autograd.grad(kept.sum(), q)
    assert gradient.abs().sum().item() > 0


MISTAKES: dict[str, Callable[[Any], Any]] = {
    "causal and mask": lambda m: attend(m, (2, 3, 4), mask=m.ones(3, 3), is_causal=True),
    "1-D": lambda m: m.nn.functional.scaled_dot_product_attention(
        m.ones(4), m.ones(3, 4), m.ones(3, 4)
    ),
    "dtypes": lambda m: m.nn.functional.scaled_dot_product_attention(
        m.ones(3, 4), m.ones(3, 4), m.ones(3, 4, dtype=m.float64)
    ),
    "heads": lambda m: m.nn.functional.scaled_dot_product_attention(
        m.ones(1, 3, 4, 4), m.ones(1, 2, 4, 4), m.ones(1, 2, 4, 4), enable_gqa=True
    ),
    "embed_dim": lambda m: m.nn.MultiheadAttention(5, 2),
    "embed_dim 0": lambda m: m.nn.MultiheadAttention(0, 2),
    "unbatched query": lambda m: m.nn.MultiheadAttention(4, 2)(
        m.ones(3, 4), m.ones(2, 3, 4), m.ones(2, 3, 4)
    ),
    "4-D query": lambda m: m.nn.MultiheadAttention(4, 2)(
        m.ones(1, 2, 3, 4), m.ones(2, 3, 4), m.ones(2, 3, 4)
    ),
    "2-D mask": lambda m: many(m, attn_mask=m.ones(3, 3)),
    "3-D mask": lambda m: many(m, attn_mask=m.ones(3, 3, 3)),
    "hint without mask": lambda m: many(m, is_causal=True),
    "padding": lambda m: many(m, key_padding_mask=m.ones(2, 3) > 0),
    "padding of integers": lambda m: many(m, key_padding_mask=m.ones(3, 2, dtype=m.int64)),
    "activation": lambda m: m.nn.TransformerEncoderLayer(4, 2, activation="x"),
    "batches": lambda m: m.nn.Transformer(4, 2, 1, 1, 8)(m.ones(2, 3, 4), m.ones(2, 1, 4)),
    "features": lambda m: m.nn.Transformer(4, 2, 1, 1, 8)(m.ones(2, 3, 5), m.ones(2, 3, 4)),
}


def attend(m: Any, shape: tuple[int, ...], mask: Any = None, **options: Any) -> Any:
    tensors = (m.ones(shape) for _ in range(3))
    return m.nn.functional.scaled_dot_product_attention(*tensors, mask, **options)


def many(m: Any, **options: Any) -> Any:
    x = m.ones(2, 3, 4)
    return m.nn.MultiheadAttention(4, 2)(x, x, x, **options)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake: str) -> None:
    call = MISTAKES[mistake]
    same_error(lambda: call(torch), lambda: call(weft), 40)


# -- several heads ---------------------------------------------------------------------------

HEADS = {
    "plain": {},
    "no bias": {"bias": False},
    "biases of key and value": {"add_bias_kv": True},
    "zeros": {"add_zero_attn": True},
    "everything": {"add_bias_kv": True, "add_zero_attn": True, "kdim": 5, "vdim": 3},
    "other sizes": {"kdim": 5, "vdim": 3, "bias": False},
    "batch first": {"batch_first": True},
}


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("name", HEADS)
def test_heads(name: str, need_weights: bool) -> None:
    options = HEADS[name]
    twins = Twins("MultiheadAttention", 8, 2, **options, **F64)
    turned = options.get("batch_first", False)

    def batched(length: int, width: int, seed: int) -> torch.Tensor:
        return sample(*((3, length) if turned else (length, 3)), width, seed=seed)

    query = batched(5, 8, 0)
    key, value = batched(6, options.get("kdim", 8), 1), batched(6, options.get("vdim", 8), 2)
    given = {"need_weights": need_weights}
    hidden = torch.zeros(3, 6, dtype=torch.bool)
    hidden[0, 4:] = hidden[2, 2] = True
    future = torch.ones(5, 6).triu(2).bool()
    twins.compare(query, key, value, **given)
    twins.compare(query, key, value, average_attn_weights=False, **given)
    twins.compare(query, key, value, key_padding_mask=hidden, **given)
    twins.compare(query, key, value, attn_mask=future, **given)
    twins.compare(query, key, value, hidden, attn_mask=future, **given)
    added = -9.0 * hidden.double()
    mask = sample(6, 5, 6).detach()
    twins.compare(query, key, value, attn_mask=mask, key_padding_mask=added, **given)
    twins.compare(
        sample(5, 8), sample(6, options.get("kdim", 8)), sample(6, options.get("vdim", 8)),
        hidden[0], attn_mask=future, **given,
    )  # fmt: skip
    if "kdim" not in options:
        twins.compare(query, query, query, **given)
        twins.compare(query, key, key, **given)
        square = torch.ones(5, 5).triu(1).bool()
        if need_weights or "add" not in str(options):
            # The hint makes PyTorch hide what was added; weft takes it for the mask it stands for.
            twins.compare(query, query, query, attn_mask=square, is_causal=True, **given)


def test_mismatched_masks_warn() -> None:
    attention = weft.nn.MultiheadAttention(4, 2)
    x = weft.ones(2, 3, 4)
    with pytest.warns(UserWarning, match="mismatched key_padding_mask and attn_mask"):
        attention(x, x, x, weft.zeros(3, 2), attn_mask=weft.zeros(2, 2).bool())


# -- transformers ----------------------------------------------------------------------------

LAYER = {
    "plain": {},
    "norm first": {"norm_first": True, "batch_first": True},
    "gelu": {"activation": "gelu", "bias": False, "layer_norm_eps": 1e-3},
}


def causal(size: int) -> torch.Tensor:
    return torch.nn.Transformer.generate_square_subsequent_mask(size, dtype=torch.float64)


@pytest.mark.parametrize("name", LAYER)
def test_encoder_layer(name: str) -> None:
    twins = Twins("TransformerEncoderLayer", 8, 2, 16, 0.0, **LAYER[name], **F64)
    x = sample(4, 4, 8)
    twins.compare(x)
    twins.compare(x, src_mask=causal(4), is_causal=True)
    hidden = torch.zeros(4, 4, dtype=torch.bool)
    hidden[1, 2:] = True
    twins.compare(x, src_key_padding_mask=hidden)
    twins.compare(sample(4, 8))


@pytest.mark.parametrize("name", LAYER)
def test_decoder_layer(name: str) -> None:
    twins = Twins("TransformerDecoderLayer", 8, 2, 16, 0.0, **LAYER[name], **F64)
    x, memory = sample(4, 4, 8), sample(4, 4, 8, seed=1)
    twins.compare(x, memory)
    twins.compare(x, memory, tgt_mask=causal(4), tgt_is_causal=True, memory_mask=causal(4))
    hidden = torch.zeros(4, 4, dtype=torch.bool)
    hidden[1, 2:] = True
    twins.compare(x, memory, tgt_key_padding_mask=hidden, memory_key_padding_mask=hidden)


@pytest.mark.parametrize("batch_first", [False, True])
def test_transformer(batch_first: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, on nested tensors
        twins = Twins(
            "Transformer", 8, 2, 2, 2, 16, 0.0, batch_first=batch_first, norm_first=True, **F64
        )
    source, target = sample(4, 4, 8), sample(4, 4, 8, seed=1)
    twins.compare(source, target)
    twins.compare(source, target, src_mask=causal(4), tgt_mask=causal(4))
    twins.compare(source, target, tgt_mask=causal(4), tgt_is_causal=True)


def test_encoder_in_evaluation() -> None:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, **F64)
    theirs = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    ours = weft.nn.TransformerEncoder(
        weft.nn.TransformerEncoderLayer(8, 2, 16, dtype=weft.float64), 2
    ).eval()
    ours.load_state_dict({key: to_weft(value) for key, value in theirs.state_dict().items()})
    x = sample(4, 3, 8)
    assert_close(ours(to_weft(x)), theirs(x), 1e-10, "evaluation")
    mask = causal(4)
    assert_close(ours(to_weft(x), to_weft(mask)), theirs(x, mask), 1e-10, "with a mask")

"""Attention: the parts that are made of others. The kernel is core/kernels/cpu/attention.cpp."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from weft import _core
from weft.ops._composed import composed

Tensor = _core.Tensor
_attention: Callable[..., Tensor] = _core.ops["scaled_dot_product"]
_attention_weights: Callable[..., Tensor] = _core.ops["attention_weights"]
_cat = _core.ops["cat"]
_dropout: Callable[..., Tensor] = _core.functional["dropout"]
_linear = _core.functional["linear"]
_zeros = _core.ops["zeros"]


@composed(kinds="function", namespace="nn.functional")
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Every query's mean of the values, weighted by the softmax of its products with the keys.

    Shapes: query (..., heads, L, E), key (..., heads, S, E), value (..., heads, S, Ev); the result
    is (..., heads, L, Ev). ``attn_mask`` broadcasts to (..., L, S): where a boolean mask is False
    the key is hidden, a floating-point mask is added to the scores. ``is_causal`` lets query i see
    the keys up to i. ``scale`` is 1 / sqrt(E) unless given. With ``enable_gqa`` neighbouring query
    heads share one head of key and value. The matrix of all scores is never made, in backward
    neither, unless ``dropout_p`` is positive or the mask itself requires a gradient.
    """
    if dropout_p == 0.0:
        return _attention(query, key, value, attn_mask, is_causal, scale, enable_gqa)
    weights = _attention_weights(query, key, value, attn_mask, is_causal, scale, enable_gqa)
    weights = _dropout(weights, dropout_p, True, False)
    if enable_gqa and value.dim() > 2 and value.size(-3) != weights.size(-3):
        value = value.repeat_interleave(weights.size(-3) // value.size(-3), -3)
    return weights @ value


# -- masks -----------------------------------------------------------------------------------


def added_mask(mask: Any, name: str, other: Any, other_name: str, dtype: Any) -> Any:
    """A mask as numbers to be added: where a boolean one is True, minus infinity hides the key."""
    if mask is None:
        return None
    floating = mask.is_floating_point()
    if not floating and mask.dtype != _core.bool:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if other is not None and other.dtype != mask.dtype:
        warnings.warn(
            f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both "
            "instead.",
            stacklevel=4,
        )
    if floating:
        return mask
    return _zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(mask, -math.inf)


def _check_shapes(
    query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Any, attn_mask: Any, heads: int
) -> None:
    if query.dim() not in (2, 3):
        raise AssertionError(
            "query should be unbatched 2D or batched 3D tensor but received "
            f"{query.dim()}-D query tensor"
        )
    ndim = query.dim()
    kind = f"For {'batched' if ndim == 3 else 'unbatched'} ({ndim}-D) `query`, expected"
    if key.dim() != ndim or value.dim() != ndim:
        raise AssertionError(
            f"{kind} `key` and `value` to be {ndim}-D but found {key.dim()}-D and {value.dim()}-D "
            "tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != ndim - 1:
        raise AssertionError(
            f"{kind} `key_padding_mask` to be `None` or {ndim - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is None:
        return
    if attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"{kind} `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor "
            "instead"
        )
    if ndim == 2 and attn_mask.dim() == 3:
        expected = (heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != expected:
            raise AssertionError(
                f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}"
            )


def _joined_mask(
    attn_mask: Any, key_padding_mask: Any, batch: int, heads: int, queries: int, keys: int
) -> Any:
    """Both masks as one that broadcasts to (batch, heads, queries, keys)."""
    if attn_mask is not None:
        expected = (queries, keys) if attn_mask.dim() == 2 else (batch * heads, queries, keys)
        if tuple(attn_mask.shape) != expected:
            raise RuntimeError(
                f"The shape of the {attn_mask.dim()}D attn_mask is {attn_mask.shape}, but should "
                f"be {expected}."
            )
        if attn_mask.dim() == 3:
            attn_mask = attn_mask.view(batch, heads, queries, keys)
    if key_padding_mask is None:
        return attn_mask
    for dim, size in enumerate((batch, keys)):
        if key_padding_mask.shape[dim] != size:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{dim}] to be {size}, but got "
                f"{key_padding_mask.shape[dim]}"
            )
    padding = key_padding_mask.view(batch, 1, 1, keys)
    return padding if attn_mask is None else attn_mask + padding


# -- several heads ---------------------------------------------------------------------------


def _projected(
    query: Tensor, key: Tensor, value: Tensor, weight: Any, bias: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value through the weights that lie under one another, in few products."""
    width = query.size(-1)
    if key is value and query is key:
        query, key, value = _linear(query, weight, bias).split(width, -1)
        return query, key, value
    weights = weight.split(width)
    biases = (None, None, None) if bias is None else bias.split(width)
    if key is value:
        both = _linear(key, weight[width:], None if bias is None else bias[width:])
        key, value = both.split(width, -1)
        return _linear(query, weights[0], biases[0]), key, value
    return (
        _linear(query, weights[0], biases[0]),
        _linear(key, weights[1], biases[1]),
        _linear(value, weights[2], biases[2]),
    )


@composed(kinds="function", namespace="nn.functional")
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """What :class:`weft.nn.MultiheadAttention` does, given its weights: result and weights.

    Shapes are (L, N, E), or (L, E) without a batch. With ``need_weights=False`` the attention
    weights are never made as a matrix, and None is returned in their place.
    """
    _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    unbatched = query.dim() == 2
    if unbatched:
        alike, values_are_keys = key is query, value is key
        query = query.unsqueeze(1)
        key = query if alike else key.unsqueeze(1)
        value = key if values_are_keys else value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    queries, batch, width = query.shape
    keys = key.size(0)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    padding = added_mask(key_padding_mask, "key_padding_mask", attn_mask, "attn_mask", query.dtype)
    if is_causal and padding is None and not need_weights:
        attn_mask = None  # the kernel knows it
    else:
        attn_mask = added_mask(attn_mask, "attn_mask", None, "", query.dtype)
        is_causal = False
    if width != embed_dim_to_check:
        raise AssertionError(
            f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}"
        )
    head_width = width // num_heads
    if head_width * num_heads != width:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")

    if use_separate_proj_weight:
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(
                f"key's sequence and batch dims {key.shape[:2]} do not match value's "
                f"{value.shape[:2]}"
            )
        biases = (None, None, None) if in_proj_bias is None else in_proj_bias.split(width)
        query = _linear(query, q_proj_weight, biases[0])
        key = _linear(key, k_proj_weight, biases[1])
        value = _linear(value, v_proj_weight, biases[2])
    else:
        if key.shape != value.shape:
            raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
        query, key, value = _projected(query, key, value, in_proj_weight, in_proj_bias)

    extra = 0
    if bias_k is not None and bias_v is not None:
        key = _cat([key, bias_k.expand(1, batch, width)])
        value = _cat([value, bias_v.expand(1, batch, width)])
        extra += 1

    def heads_of(t: Tensor) -> Tensor:
        return t.view(t.size(0), batch, num_heads, head_width).permute(1, 2, 0, 3)

    query = heads_of(query)
    key = heads_of(key) if static_k is None else _given_heads(static_k, batch, num_heads, "k")
    value = heads_of(value) if static_v is None else _given_heads(static_v, batch, num_heads, "v")
    if add_zero_attn:
        nothing = _zeros((batch, num_heads, 1, head_width), dtype=key.dtype, device=key.device)
        key, value = _cat([key, nothing], 2), _cat([value, nothing], 2)
        extra += 1
    if static_k is not None:
        keys = key.size(2) - extra
    mask = _joined_mask(attn_mask, padding, batch, num_heads, queries, keys)
    if extra and mask is not None:  # nothing hides what was added
        mask = _core.ops["constant_pad_nd"](mask, [0, extra])

    probability = dropout_p if training else 0.0
    weights = None
    if need_weights:
        weights = _attention_weights(query, key, value, mask, is_causal, None, False)
        if probability > 0.0:
            weights = _dropout(weights, probability, True, False)
        result = weights @ value
    else:
        if is_causal and extra:
            # What was added comes after the keys, where a causal mask would hide it.
            mask = _causal_mask(queries, keys, extra, query)
            is_causal = False
        result = scaled_dot_product_attention(query, key, value, mask, probability, is_causal)
    result = result.permute(2, 0, 1, 3).reshape(queries, batch, width)
    result = _linear(result, out_proj_weight, out_proj_bias)
    if weights is not None and average_attn_weights:
        weights = weights.mean(1)
    if unbatched:
        return result.squeeze(1), None if weights is None else weights.squeeze(0)
    return result, weights


def _given_heads(t: Tensor, batch: int, heads: int, name: str) -> Tensor:
    if t.dim() != 3 or t.size(0) != batch * heads:
        raise AssertionError(
            f"expecting static_{name}.size(0) of {batch * heads}, but got {t.size(0)}"
        )
    return t.view(batch, heads, t.size(1), t.size(2))


def _causal_mask(queries: int, keys: int, extra: int, like: Tensor) -> Tensor:
    """True where a query sees a key; what was added to the keys is seen by all."""
    sees = _core.ops["ones"]((queries, keys), dtype=_core.bool, device=like.device).tril()
    return _core.ops["constant_pad_nd"](sees, [0, extra], True)

"""Attention with several heads."""

from __future__ import annotations

from typing import Any

import weft
from weft._core import Tensor
from weft.nn import functional as F
from weft.nn import init
from weft.nn.modules.linear import Linear
from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter

_attend = F.multi_head_attention_forward


class NonDynamicallyQuantizableLinear(Linear):
    """A :class:`Linear` under the name that PyTorch gives the output projection of attention."""


class MultiheadAttention(Module):
    """Attention in ``num_heads`` parallel parts, each over its share of ``embed_dim``.

    Query, key and value are (L, N, E), with ``batch_first`` (N, L, E), or (L, E) without a batch;
    ``kdim`` and ``vdim`` are the features of key and value where they differ. ``add_bias_kv`` adds
    a learnt key and value to every sequence, ``add_zero_attn`` one of zeros. The call returns the
    result and the attention weights; with ``need_weights=False`` None in their place, which is
    faster and takes no memory for the matrix of weights. In ``key_padding_mask`` (N, S) and
    ``attn_mask`` (L, S) or (N * heads, L, S), True hides a key; numbers are added to the scores.

    >>> attention = weft.nn.MultiheadAttention(16, 4, batch_first=True)
    >>> x = weft.randn(2, 5, 16)
    >>> result, weights = attention(x, x, x)
    >>> result.shape, weights.shape
    (torch.Size([2, 5, 16]), torch.Size([2, 5, 5]))
    """

    bias_k: Any
    bias_v: Any

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        self.embed_dim = embed_dim
        self.kdim = kdim if kdim is not None else embed_dim
        self.vdim = vdim if vdim is not None else embed_dim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        options = {"device": device, "dtype": dtype}

        def parameter(*size: int) -> Any:
            return Parameter(weft.empty(size, **options))

        if self._qkv_same_embed_dim:
            self.in_proj_weight = parameter(3 * embed_dim, embed_dim)
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.q_proj_weight = parameter(embed_dim, embed_dim)
            self.k_proj_weight = parameter(embed_dim, self.kdim)
            self.v_proj_weight = parameter(embed_dim, self.vdim)
            self.register_parameter("in_proj_weight", None)
        if bias:
            self.in_proj_bias = parameter(3 * embed_dim)
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **options)
        if add_bias_kv:
            self.bias_k = parameter(1, 1, embed_dim)
            self.bias_v = parameter(1, 1, embed_dim)
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            init.xavier_uniform_(self.q_proj_weight)
            init.xavier_uniform_(self.k_proj_weight)
            init.xavier_uniform_(self.v_proj_weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            init.xavier_normal_(self.bias_k)
        if self.bias_v is not None:
            init.xavier_normal_(self.bias_v)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        turned = self.batch_first and query.dim() == 3
        if turned:
            # Tensors that were one stay one: their projections are one product then.
            keys_are_queries, values_are_keys = key is query, value is key
            query = query.transpose(0, 1)
            key = query if keys_are_queries else key.transpose(0, 1)
            value = key if values_are_keys else value.transpose(0, 1)
        separate = not self._qkv_same_embed_dim
        result, weights = _attend(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            self.training,
            key_padding_mask,
            need_weights,
            attn_mask,
            separate,
            self.q_proj_weight if separate else None,
            self.k_proj_weight if separate else None,
            self.v_proj_weight if separate else None,
            None,
            None,
            average_attn_weights,
            is_causal,
        )
        return result.transpose(0, 1) if turned else result, weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks as one of shape (N, heads, L, S), and what kind it is (0, 1 or 2)."""
        if key_padding_mask is None:
            return attn_mask, None if attn_mask is None else 0
        if attn_mask is None:
            return key_padding_mask, 1
        batch, length = query.shape[:2]
        wide = attn_mask.view(batch, -1, length, length) if attn_mask.dim() == 3 else attn_mask
        wide = wide.expand(batch, self.num_heads, -1, -1)
        return wide + key_padding_mask.view(batch, 1, 1, length), 2

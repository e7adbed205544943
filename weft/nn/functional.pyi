# Written by tools/make_stubs.py from the registry.
#
# Overloads follow PyTorch's, which overlap: the first that fits is taken.
# mypy: disable-error-code="overload-overlap, overload-cannot-match"

from builtins import bool as _bool
from builtins import float as _float
from builtins import int as _int
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, overload

from weft._core import Generator, Number, Tensor, _device, _dtype
from weft._memory_format import layout as _layout
from weft._memory_format import memory_format as _memory_format

from weft import ops as ops

def bilinear(
    input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor: ...
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: _bool | None = None,
    reduce: _bool | None = None,
    reduction: str = "mean",
) -> Tensor: ...
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: _bool | None = None,
    reduce: _bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor: ...
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: _float = 1e-08) -> Tensor: ...
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: _bool | None = None,
    ignore_index: _int = -100,
    reduce: _bool | None = None,
    reduction: str = "mean",
    label_smoothing: _float = 0.0,
) -> Tensor: ...
@overload
def elu(input: Tensor, alpha: _float = 1) -> Tensor: ...
@overload
def elu(input: Tensor, alpha: _float = 1, inplace: _bool = False) -> Tensor: ...
def elu_(input: Tensor, alpha: _float = 1.0) -> Tensor: ...
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: _int | None = None,
    max_norm: _float | None = None,
    norm_type: _float = 2.0,
    scale_grad_by_freq: _bool = False,
    sparse: _bool = False,
) -> Tensor: ...
@overload
def gelu(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def gelu(input: Tensor, *, approximate: str, out: Tensor | None = None) -> Tensor: ...
def glu(input: Tensor, dim: _int = -1) -> Tensor: ...
@overload
def hardtanh(input: Tensor, min_val: _float = -1, max_val: _float = 1) -> Tensor: ...
@overload
def hardtanh(
    input: Tensor, min_val: _float = -1, max_val: _float = 1, inplace: _bool = False
) -> Tensor: ...
def hardtanh_(input: Tensor, min_val: _float = -1.0, max_val: _float = 1.0) -> Tensor: ...
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: _float = 1.0,
    weight: Tensor | None = None,
) -> Tensor: ...
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: _bool | None = None,
    reduce: _bool | None = None,
    reduction: str = "mean",
    log_target: _bool = False,
) -> Tensor: ...
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: _bool | None = None,
    reduce: _bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor: ...
@overload
def leaky_relu(input: Tensor, negative_slope: _float = 0.01) -> Tensor: ...
@overload
def leaky_relu(input: Tensor, negative_slope: _float = 0.01, inplace: _bool = False) -> Tensor: ...
def leaky_relu_(input: Tensor, negative_slope: _float = 0.01) -> Tensor: ...
def linear(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def log_softmax(
    input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: Any = None
) -> Tensor: ...
def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: _bool | None = None,
    reduce: _bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor: ...
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: _bool | None = None,
    ignore_index: _int = -100,
    reduce: _bool | None = None,
    reduction: str = "mean",
) -> Tensor: ...
def normalize(
    input: Tensor, p: _float = 2.0, dim: Any = 1, eps: _float = 1e-12, out: Tensor | None = None
) -> Tensor: ...
def one_hot(tensor: Tensor, num_classes: _int = -1) -> Tensor: ...
def pad(
    input: Tensor, pad: Sequence[_int], mode: str = "constant", value: _float | None = None
) -> Tensor: ...
@overload
def relu(input: Tensor) -> Tensor: ...
@overload
def relu(input: Tensor, inplace: _bool) -> Tensor: ...
def relu6(input: Tensor, inplace: _bool = False) -> Tensor: ...
def relu_(input: Tensor) -> Tensor: ...
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def silu(input: Tensor) -> Tensor: ...
@overload
def silu(input: Tensor, inplace: _bool) -> Tensor: ...
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: _bool | None = None,
    reduce: _bool | None = None,
    reduction: str = "mean",
    beta: _float = 1.0,
) -> Tensor: ...
def softmax(
    input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: Any = None
) -> Tensor: ...
def softmin(
    input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: Any = None
) -> Tensor: ...
def softplus(
    input: Tensor, beta: _float = 1, threshold: _float = 20, *, out: Tensor | None = None
) -> Tensor: ...
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...

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

def cross(input: Tensor, other: Tensor, *, dim: _int = -1, out: Tensor | None = None) -> Tensor: ...
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def matrix_power(A: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor: ...
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def svd(
    A: Tensor, full_matrices: _bool = True, *, driver: str | None = None, out: Any = None
) -> Any: ...
def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor: ...
def vector_norm(
    input: Tensor,
    ord: Number = 2,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...

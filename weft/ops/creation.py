"""Making tensors: what is not one of the operations written in C++ (core/ops/create.cpp)."""

from __future__ import annotations

from typing import Any, NoReturn

from weft import _core
from weft.ops._composed import composed

Tensor = _core.Tensor


@composed(kinds="function")
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` numbers from ``base ** start`` to ``base ** end``, each the same factor larger."""
    if out is not None:
        if dtype is not None and dtype != out.dtype:
            raise RuntimeError(
                f"logspace(): dtype {dtype} does not match dtype of out parameter ({out.dtype})"
            )
        dtype = out.dtype
    dtype = dtype or _core.get_default_dtype()
    if dtype == _core.bool:
        raise NotImplementedError("\"logspace\" not implemented for 'Bool'")
    for bound in (start, end):
        if isinstance(bound, Tensor) and bound.ndim > 0:
            raise RuntimeError(
                "logspace only supports 0-dimensional start and end tensors, but got one with "
                f"{bound.ndim} dimension(s)"
            )
    # The bounds are numbers of the result's dtype.
    start, end = (_core.tensor(float(bound), dtype=dtype).item() for bound in (start, end))
    exponents = _core.linspace(start, end, steps, dtype=_core.float64, layout=layout, device=device)
    result = (base**exponents).to(dtype)
    if out is not None:
        _core._write_out(out, result)
        return out
    return result.requires_grad_() if requires_grad else result


@composed(kinds="method")
def new_tensor(
    self: Tensor,
    data: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A copy of `data` as a tensor, of this tensor's dtype unless another is asked for."""
    dtype = dtype or self.dtype
    result = self.new_empty((), dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
    values = data.detach() if isinstance(data, Tensor) else _core.tensor(data, dtype=dtype)
    result = values.to(result.device, dtype, copy=True)
    return result.requires_grad_() if requires_grad else result


def _refuse_complex(name: str) -> NoReturn:
    raise NotImplementedError(
        f"{name}: complex tensors have no arithmetic in weft yet; "
        "keep real and imaginary parts in two tensors"
    )


@composed(kinds="function")
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> NoReturn:
    """Refused: weft computes with real numbers."""
    _refuse_complex("complex")


@composed(kinds="function")
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> NoReturn:
    """Refused: weft computes with real numbers."""
    _refuse_complex("polar")


@composed(kinds="function")
def zero_(input: Tensor) -> Tensor:
    """Fills the tensor with zeros."""
    return input.zero_()


@composed(kinds="function")
def fill_(input: Tensor, value: Any) -> Tensor:
    """Fills the tensor with a number."""
    return input.fill_(value)

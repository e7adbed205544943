"""`FloatTensor` and its kin: the old names of a tensor with a given type of numbers.

They make tensors (`FloatTensor(2, 3)`, `LongTensor([1, 2])`) and ask about them
(`isinstance(x, FloatTensor)`), but they are not what `type(x)` says.
"""

from __future__ import annotations

from typing import Any

from weft import _core
from weft._tensor import construct_of

_NAMES = {
    "FloatTensor": _core.float32,
    "DoubleTensor": _core.float64,
    "HalfTensor": _core.float16,
    "BFloat16Tensor": _core.bfloat16,
    "ByteTensor": _core.uint8,
    "CharTensor": _core.int8,
    "ShortTensor": _core.int16,
    "IntTensor": _core.int32,
    "LongTensor": _core.int64,
    "BoolTensor": _core.bool,
}


class _TensorType(type):
    """The class of these classes: what they make and accept are tensors."""

    dtype: Any

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        if len(args) == 1 and isinstance(args[0], _core.Tensor) and args[0].dtype != cls.dtype:
            raise TypeError(
                f"expected {cls.__name__} (got {type_name(args[0].dtype)}): convert the tensor "
                f"with tensor.to({cls.dtype})"
            )
        return construct_of(cls.dtype, *args, device=device)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _core.Tensor) and instance.dtype == cls.dtype

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"


legacy_types: dict[str, Any] = {
    name: _TensorType(name, (), {"dtype": dtype, "__module__": "weft"})
    for name, dtype in _NAMES.items()
}


def type_name(dtype: Any) -> str:
    """``torch.FloatTensor`` for float32."""
    return next(f"torch.{name}" for name, known in _NAMES.items() if known is dtype)

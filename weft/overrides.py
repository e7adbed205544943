"""Classes that take part in operations: ``__torch_function__``, as in PyTorch.

A class derived from ``Tensor`` (or any class at all) that defines

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None): ...

is asked whenever one of its objects is an argument of an operation. What it returns is the result;
``NotImplemented`` leaves the decision to the next argument's class.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft import _core


class DisableTorchFunctionSubclass:
    """Inside, subclasses of Tensor are treated as Tensor: for use in ``__torch_function__``."""

    def __enter__(self) -> None:
        self._before = _core._switch_overrides(True)

    def __exit__(self, *exception: object) -> None:
        _core._switch_overrides(self._before)


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether the class of one of the arguments has a say in what operations do."""
    without = (None, _core._disabled_torch_function_impl)
    return any(
        type(argument) is not _core.Tensor
        and getattr(type(argument), "__torch_function__", None) not in without
        for argument in relevant_args
    )


def is_tensor_like(inp: Any) -> bool:
    """Whether ``inp`` can stand where a tensor is expected."""
    return isinstance(inp, _core.Tensor) or hasattr(type(inp), "__torch_function__")

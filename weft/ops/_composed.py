"""How an operation is written in Python.

A composed operation is a function and its docstring. The decorator below registers it, so that it
gets the same forms (function, method, in-place, ``out=``), documentation, stubs and tests as an
operation written in C++, and so that nodes recorded inside it belong to the line that called it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

from weft import _core

F = TypeVar("F", bound=Callable[..., Any])


class Composed(NamedTuple):
    """One composed operation, as the registry lists it."""

    name: str
    function: Callable[..., Any]
    kinds: tuple[str, ...]
    namespace: str  # "" for weft itself, else "nn.functional", "linalg", "special"
    call: Callable[..., Any]  # what a program calls


class SecondName(NamedTuple):
    """Another name for an operation of weft itself, there or in a namespace."""

    name: str
    of: str
    namespace: str


composed_operations: list[Composed] = []
second_names: list[SecondName] = []


def composed(
    name: str | None = None, *, kinds: str = "function method", namespace: str = ""
) -> Callable[[F], F]:
    """Registers a function as an operation of weft.

    ``kinds`` names the forms it is offered in: ``function``, ``method`` (on Tensor), ``inplace``
    (``tensor.name_()``, which copies the result into the tensor) and ``out`` (``out=`` keyword).
    """

    def register(function: F) -> F:
        forms = tuple(kinds.split())
        callable_form = _with_out(function) if "out" in forms else function
        call = _core.composed_function(callable_form)
        operation = Composed(name or function.__name__, function, forms, namespace, call)
        composed_operations.append(operation)
        if "method" in operation.kinds:
            method = _core.composed_method(callable_form)
            setattr(_core.Tensor, operation.name, method)
        if "inplace" in operation.kinds:
            setattr(_core.Tensor, operation.name + "_", _core.composed_method(_in_place(function)))
        return cast(F, call)

    return register


def alias(name: str, of: str, *, namespace: str = "") -> None:
    """Offers an operation under a second name, in every form the first one has.

    In a namespace (``weft.special.psi`` is ``weft.digamma``) it is offered as a function only.
    """
    second_names.append(SecondName(name, of, namespace))
    if namespace:
        return
    for suffix in ("", "_"):
        method = vars(_core.Tensor).get(of + suffix)
        if method is not None:
            setattr(_core.Tensor, name + suffix, method)


def _with_out(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if out is None:
            return result
        return write_out(function.__name__, result, out)

    return call


def write_out(name: str, result: Any, out: Any) -> Any:
    """Copies results into ``out``, resizing what is empty, as ``out=`` promises."""
    results = result if isinstance(result, tuple) else (result,)
    targets = out if isinstance(out, tuple | list) else (out,)
    if len(results) != len(targets):
        raise TypeError(f"{name}(): argument 'out' must be a tuple of {len(results)} Tensors")
    for value, target in zip(results, targets, strict=True):
        if not isinstance(target, _core.Tensor):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(target).__name__}")
        _core._write_out(target, value)
    return out


def _in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        # What the composition saves of the tensor must not be what is about to be overwritten.
        source = self.clone() if _core.is_grad_enabled() else self
        return self.copy_(_fitting(function(source, *args, **kwargs), self, function.__name__))

    return call


def _fitting(result: Any, target: Any, name: str) -> Any:
    if result.shape != target.shape:
        raise RuntimeError(
            f"{name}_: output with shape {list(target.shape)} doesn't match the broadcast shape "
            f"{list(result.shape)}"
        )
    if not _core.can_cast(result.dtype, target.dtype):
        raise RuntimeError(
            f"{name}_: result type {result.dtype} can't be cast to the desired output type "
            f"{target.dtype}"
        )
    return result

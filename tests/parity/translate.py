"""Callables of PyTorch's operator database, as the same callables of another module.

A named function (`torch.add`, `torch.Tensor.add_`, `torch.nn.functional.relu`) is looked up by its
path. A lambda (`lambda x: x.T`, `lambda x: torch.zero_(x.clone())`) is run again as it is written,
with `torch` meaning the other module.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable
from typing import Any

import torch

NAMESPACES = ("", "nn.functional", "linalg", "special", "Tensor", "fft")


class Missing(Exception):
    """The other module has no such name."""


def _call_unseeded(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Stands for PyTorch's `wrapper_set_seed`: random values are not compared one by one."""
    return op(*args, **kwargs)


@functools.cache
def _torch_paths() -> dict[int, str]:
    paths: dict[int, str] = {}
    for namespace in NAMESPACES:
        owner = resolve(torch, namespace)
        for name in dir(owner):
            member = getattr(owner, name, None)
            if callable(member):
                paths.setdefault(id(member), f"{namespace}.{name}".lstrip("."))
    return paths


def resolve(module: Any, path: str) -> Any:
    owner = module
    for part in path.split(".") if path else ():
        try:
            owner = getattr(owner, part)
        except AttributeError:
            raise Missing(f"{path} (no `{part}`)") from None
    return owner


def path_of(function: Any) -> str | None:
    """`torch.nn.functional.relu` -> "nn.functional.relu"."""
    known = _torch_paths().get(id(function))
    if known is not None:
        return known
    # Method descriptors are made anew for each class they are read from.
    name = getattr(function, "__name__", "")
    if name and getattr(torch.Tensor, name, None) == function:
        return f"Tensor.{name}"
    return None


def _sliced(
    tensor: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """`torch.ops.aten.slice`, which has no other name in Python than the brackets."""
    dim %= tensor.dim()
    return tensor[(slice(None),) * dim + (slice(start, end, step),)]


def translate(function: Any, module: Any) -> Callable[..., Any]:
    """`function`, which is PyTorch's, as `module`'s. Raises `Missing`."""
    if function is torch.ops.aten.slice.Tensor or function is torch.ops.aten.slice:
        return _sliced
    if getattr(operator, getattr(function, "__name__", ""), None) is function:
        return function
    path = path_of(function)
    if path is not None:
        return resolve(module, path)
    if isinstance(function, types.FunctionType):
        scope = {**function.__globals__, "torch": module, "wrapper_set_seed": _call_unseeded}
        return types.FunctionType(
            function.__code__,
            scope,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
    if isinstance(function, functools.partial):
        inner = translate(function.func, module)
        return functools.partial(inner, *function.args, **function.keywords)
    raise Missing(f"{function!r} has no name to look for")

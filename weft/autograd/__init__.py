"""Derivatives of recorded programs."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

from weft.autograd import _nodes, _tensor_methods, graph
from weft.autograd._backward import backward, grad
from weft.autograd._modes import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)
from weft.autograd.function import Function, once_differentiable

_nodes.install()
_tensor_methods.install()

# Checking tools are imported when they are first used: a program that only trains does not pay.
_LAZY = {
    "functional": ("weft.autograd.functional", None),
    "gradcheck": ("weft.autograd.gradcheck", "gradcheck"),
    "gradgradcheck": ("weft.autograd.gradcheck", "gradgradcheck"),
    "GradcheckError": ("weft.autograd.gradcheck", "GradcheckError"),
}

_ABSENT = {
    "Variable": "tensors record by themselves; use weft.tensor(..., requires_grad=True).",
    "forward_ad": "forward mode is not there yet; weft.autograd.functional.jvp multiplies with the "
    "Jacobian by two backward passes.",
}

__all__ = [
    "Function",
    "GradcheckError",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "once_differentiable",
    "set_detect_anomaly",
    "set_grad_enabled",
]


def __getattr__(name: str) -> Any:
    if name in _ABSENT:
        raise AttributeError(f"weft.autograd.{name}: {_ABSENT[name]}")
    if name not in _LAZY:
        raise AttributeError(f"module 'weft.autograd' has no attribute {name!r}")
    module_name, attribute = _LAZY[name]
    module = importlib.import_module(module_name)
    value = module if attribute is None else getattr(module, attribute)
    globals()[name] = value
    return value


class _Package(types.ModuleType):
    """Keeps `gradcheck` the function: importing the module of that name would bind the module."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "gradcheck" and isinstance(value, types.ModuleType):
            value = value.gradcheck
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

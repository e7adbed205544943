"""What Tensor can do about its own history: backward, hooks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from weft import _core
from weft.autograd._backward import backward as run_backward
from weft.autograd._handles import RemovableHandle
from weft.autograd._nodes import add_hook, hooks_of

Tensor = _core.Tensor


def backward(
    self: Any,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Tensor.backward() with arguments; without any, the core does it alone."""
    run_backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def register_hook(self: Any, hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(grad)`` when this tensor's gradient is computed; it may return another one."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    _core._track(self)  # the hook may refer to the tensor, which owns it
    if self.grad_fn is not None:
        return add_hook(hooks_of(self.grad_fn, self.output_nr), hook)
    if self._backward_hooks is None:
        self._backward_hooks = OrderedDict()
    return add_hook(self._backward_hooks, hook)


def register_post_accumulate_grad_hook(self: Any, hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(tensor)`` after a gradient has been added to this leaf's ``.grad``."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self.grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if self._post_accumulate_grad_hooks is None:
        self._post_accumulate_grad_hooks = OrderedDict()
    return add_hook(self._post_accumulate_grad_hooks, hook)


def install() -> None:
    """Puts the methods on Tensor."""
    _core._set_backward(backward)
    for method in (register_hook, register_post_accumulate_grad_hook):
        setattr(Tensor, method.__name__, method)

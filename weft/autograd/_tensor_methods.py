"""What Tensor can do about its own history: backward, hooks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from weft import _core
from weft.autograd._backward import backward as run_backward
from weft.utils.hooks import RemovableHandle

Tensor = _core.Tensor


def backward(
    self: Any,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Adds the gradient of this tensor to the ``.grad`` of every leaf it depends on."""
    if gradient is None and retain_graph is None and not create_graph and inputs is None:
        return _core._plain_backward(self)
    return run_backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def register_hook(self: Any, hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(grad)`` whenever this tensor's gradient is computed; it may return another one."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self.grad_fn is None:
        if self._backward_hooks is None:
            self._backward_hooks = OrderedDict()
        hooks = self._backward_hooks
    else:
        hooks = node_hooks(self.grad_fn, self.output_nr)
    return _add(hooks, hook)


def register_post_accumulate_grad_hook(self: Any, hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(tensor)`` after a gradient has been added to this leaf's ``.grad``."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self.grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if self._post_accumulate_grad_hooks is None:
        self._post_accumulate_grad_hooks = OrderedDict()
    return _add(self._post_accumulate_grad_hooks, hook)


def node_hooks(node: Any, key: int | str) -> OrderedDict[int, Callable[..., Any]]:
    """The hooks of a node: of its result ``key``, or those called ``"pre"`` and ``"post"``."""
    if node._hooks is None:
        node._hooks = {}
    hooks: OrderedDict[int, Callable[..., Any]] = node._hooks.setdefault(key, OrderedDict())
    return hooks


def _add(hooks: OrderedDict[int, Callable[..., Any]], hook: Callable[..., Any]) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def register_node_hook(self: Any, hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(grad_inputs, grad_outputs)`` after this node's derivative has been computed."""
    return _add(node_hooks(self, "post"), hook)


def register_node_prehook(self: Any, hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(grad_outputs)`` before this node's derivative is computed."""
    return _add(node_hooks(self, "pre"), hook)


def install() -> None:
    """Puts the methods on Tensor and on Node."""
    for method in (backward, register_hook, register_post_accumulate_grad_hook):
        setattr(Tensor, method.__name__, method)
    _core.Node.register_hook = register_node_hook
    _core.Node.register_prehook = register_node_prehook

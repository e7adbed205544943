"""The recorded graph seen from Python: nodes, edges, hooks on saved values."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from weft import _core
from weft.autograd._handles import RemovableHandle

Node = _core.Node
Tensor = _core.Tensor


class GradientEdge(NamedTuple):
    """Where a gradient is delivered: a node and which of its results.

    ``autograd.grad`` and ``backward`` take one wherever they take a tensor.
    """

    node: Any
    output_nr: int


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The edge through which ``tensor``'s gradient flows; for a leaf, that of its accumulator."""
    return GradientEdge(*_core._gradient_edge(tensor))


class saved_tensors_hooks:
    """Inside, every tensor kept for backward passes through ``pack_hook``, and back later.

    ``pack_hook`` takes a tensor and may return anything; ``unpack_hook`` takes that and returns the
    tensor.
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        _core._push_saved_tensor_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *exception: object) -> None:
        _core._pop_saved_tensor_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Keeps saved tensors in the CPU's memory while they wait for backward."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Any) -> tuple[Any, Any]:
            return tensor.device, tensor.detach().clone().cpu()

        def unpack(packed: tuple[Any, Any]) -> Any:
            device, tensor = packed
            return tensor.to(device)

        super().__init__(pack, unpack)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Any:
    """Inside, ``saved_tensors_hooks`` is an error with this message."""
    before = _core._disable_saved_tensor_hooks(error_message)
    try:
        yield
    finally:
        _core._disable_saved_tensor_hooks(before)


class _MultiHandle(RemovableHandle):
    """Takes the hooks of several tensors away together."""

    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> tuple[RemovableHandle, ...]:
        return self.handles

    def __setstate__(self, state: tuple[RemovableHandle, ...]) -> None:
        self.handles = state


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[..., None], *, mode: str = "all"
) -> RemovableHandle:
    """Calls ``fn`` once the gradients of all (or any) of ``tensors`` have been computed.

    In mode "all" ``fn`` gets the list of gradients, with None where a pass does not reach a tensor;
    in mode "any", the gradient that came first. Each backward pass counts for itself.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    gathering = _Gathering([get_gradient_edge(tensor).node for tensor in tensors], fn, mode)
    handles = (t.register_hook(gathering.hook_for(i)) for i, t in enumerate(tensors))
    return _MultiHandle(tuple(handles))


class _Gathering:
    """The gradients that a multi-grad hook has seen, for each backward pass that is running."""

    def __init__(self, nodes: list[Any], fn: Callable[..., None], mode: str) -> None:
        self._nodes = nodes
        self._fn = fn
        self._mode = mode
        self._lock = threading.Lock()
        self._gradients: dict[int, list[Any]] = {}
        self._missing: dict[int, int] = {}

    def hook_for(self, index: int) -> Callable[[Any], None]:
        def hook(gradient: Any) -> None:
            with self._lock:
                complete = self._take(_core._current_pass(), index, gradient)
            if complete is not None:
                self._fn(complete)

        return hook

    def _take(self, current: int, index: int, gradient: Any) -> Any:
        if current not in self._missing:
            for ended in [p for p in self._missing if not _core._pass_is_running(p)]:
                del self._missing[ended]
                self._gradients.pop(ended, None)
            reached = sum(map(_core._pass_reaches, self._nodes))
            self._missing[current] = reached if self._mode == "all" else 1
            self._gradients[current] = [None] * len(self._nodes)
        self._missing[current] -= 1
        if self._mode == "any":
            return gradient if self._missing[current] == 0 else None
        self._gradients[current][index] = gradient
        return self._gradients.pop(current) if self._missing[current] == 0 else None


def increment_version(tensor: Any) -> None:
    """Tells autograd that a tensor's memory was changed behind its back."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tuple(tensor):
        if t.is_inference():
            raise RuntimeError("increment_version can not be called on an inference tensor")
        _core._bump_version(t)

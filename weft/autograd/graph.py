"""The recorded graph seen from Python: nodes, edges, hooks on saved values."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from weft import _core
from weft.utils.hooks import RemovableHandle

Node = _core.Node
Tensor = _core.Tensor


class GradientEdge(NamedTuple):
    """Where a gradient is delivered: a node and which of its results."""

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

    def __init__(
        self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]
    ) -> None:
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


class disable_saved_tensors_hooks:
    """Inside, ``saved_tensors_hooks`` is an error with this message."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __enter__(self) -> None:
        self._before = _core._disable_saved_tensor_hooks(self.error_message)

    def __exit__(self, *exception: object) -> None:
        _core._disable_saved_tensor_hooks(self._before)


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[..., None], *, mode: str = "all"
) -> RemovableHandle:
    """Calls ``fn`` once the gradients of all (or any) of ``tensors`` have been computed."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = threading.Lock()
    handles: dict[int, Any] = {}
    state: dict[str, Any] = {"gradients": [None] * len(tensors), "seen": 0, "fired": False}

    def hook_for(index: int) -> Callable[[Any], None]:
        def hook(gradient: Any) -> None:
            with lock:
                if mode == "any":
                    if state["fired"]:
                        return
                    state["fired"] = True
                    arguments: tuple[Any, ...] = (gradient,)
                else:
                    state["gradients"][index] = gradient
                    state["seen"] += 1
                    if state["seen"] < len(tensors):
                        return
                    arguments = (state["gradients"],)
                    state["gradients"], state["seen"] = [None] * len(tensors), 0
            fn(*arguments)

        return hook

    registered = [t.register_hook(hook_for(i)) for i, t in enumerate(tensors)]

    class MultiHandle(RemovableHandle):
        def __init__(self) -> None:
            self.handles = registered

        def remove(self) -> None:
            for handle in self.handles:
                handle.remove()

    handles.clear()
    return MultiHandle()


def increment_version(tensor: Any) -> None:
    """Tells autograd that a tensor's memory was changed behind its back."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tuple(tensor):
        if t.is_inference():
            raise RuntimeError("increment_version can not be called on an inference tensor")
        _core._bump_version(t)

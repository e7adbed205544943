"""Tensors that Python code keeps for backward: packed by hooks, or watched for overwriting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import _core
from weft.autograd._modes import no_grad


class SavedValue:
    """A tensor kept for backward, with the version it had.

    A result is kept without its history, because the node would otherwise keep itself alive; the
    history is put back when the value is asked for.
    """

    __slots__ = ("output_nr", "tensor", "unpack", "version")

    def __init__(self, tensor: Any, output_nr: int | None) -> None:
        self.output_nr = output_nr
        self.version = None
        self.unpack = None
        hooks = _core._current_saved_tensor_hooks()
        if hooks is not None:
            self.tensor, self.unpack = _packed(self._kept(tensor), *hooks)
            return
        if not tensor.is_inference():
            self.version = tensor._version
        self.tensor = self._kept(tensor)

    def _kept(self, tensor: Any) -> Any:
        return tensor if self.output_nr is None else _core._alias(tensor)

    def get(self, node: Any, name: str) -> Any:
        if self.unpack is not None:
            value = self.unpack(self.tensor)
        else:
            value = self.tensor
            if self.version is not None and value._version != self.version:
                self._fail_overwritten(node, name)
        if self.output_nr is not None and node is not None and _core.is_grad_enabled():
            return _core._with_history(value, node, self.output_nr)
        return value

    def _fail_overwritten(self, node: Any, name: str) -> None:
        value = self.tensor
        which = "saved by" if self.output_nr is None else f"output {self.output_nr} of"
        site = None if node is None else node.site
        saved = "" if site is None else " It was saved at {}:{} (in {})".format(*site)
        writer = _core._writer_of(value)
        overwritten = f" and overwritten{writer}." if saved and writer else ""
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: [{str(value.dtype).rpartition('.')[2]}{list(value.shape)}], which is "
            f"{which} {name}, is at version {value._version}; expected version {self.version} "
            f"instead.{saved}{overwritten} Use the out-of-place form there, or clone() the value "
            "before it is overwritten."
        )


def _packed(tensor: Any, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> Any:
    version = None if tensor.is_inference() else tensor._version
    with no_grad():
        packed = pack(tensor)
    if version is not None and tensor._version != version:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input "
            "to pack hook can not be modified by in-place operations as this can lead to "
            "unexpected side-effects. Work on a clone() of it."
        )
    return packed, unpack

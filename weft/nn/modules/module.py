"""The base class of everything that has parameters.

Its parts: what a module consists of (``_registration.py``), its state as a dictionary
(``_state_dict.py``), hooks (``_hooks.py``); calling it and reading its attributes is C++
(``bind/module_type.cpp``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

import weft
from weft import _core
from weft._core import Tensor
from weft.nn.modules import _hooks, _registration
from weft.nn.modules._hooks import (
    Hooked,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from weft.nn.modules._mode_lines import note_evaluation
from weft.nn.modules._state_dict import Stateful

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]


class Module(Hooked, Stateful):
    """Base class of layers and models.

    Tensors wrapped in :class:`Parameter` and other modules are registered when they are assigned to
    attributes; ``forward`` is what calling the module does.

    >>> class Classifier(weft.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = weft.nn.Linear(4, 8)
    ...         self.out = weft.nn.Linear(8, 2)
    ...
    ...     def forward(self, x):
    ...         return self.out(self.hidden(x).relu())
    >>> Classifier()(weft.ones(3, 4)).shape
    torch.Size([3, 2])
    """

    dump_patches: bool = False
    training: bool
    call_super_init: bool = False

    def _forward_unimplemented(self, *input: Any) -> Any:
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    # Any function will do; mypy must not compare the signatures of subclasses with this one.
    forward: Callable[..., Any] = _forward_unimplemented

    # -- over everything ----------------------------------------------------------------------

    def apply(self, fn: Callable[[Any], Any]) -> Self:
        """Calls ``fn`` on every module below this one, then on this one; returns the module.

        >>> def halve(module):
        ...     if isinstance(module, weft.nn.Linear):
        ...         module.weight.data *= 0.5
        >>> net.apply(halve)
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        """Exchanges the contents of all parameters and buffers; parameters stay the objects."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            gradient = parameter.grad
            with weft.no_grad():
                parameter.data = fn(parameter)
                if gradient is not None:
                    gradient.data = fn(gradient)
                    parameter.grad = gradient
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def train(self, mode: bool = True) -> Self:
        """Sets training mode (dropout drops, batch norm uses the batch) here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self._modules.values():
            if module is not None:
                module.train(mode)
        return self

    def eval(self) -> Self:
        """Sets evaluation mode: the same as ``train(False)``."""
        note_evaluation(self)
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Whether the parameters here and below are trained: ``False`` freezes them."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients of all parameters, or with ``set_to_none=False`` zeroes them."""
        if getattr(self, "_is_replica", False):
            warnings.warn(
                "Calling .zero_grad() from a module created with nn.DataParallel() has no effect: "
                "its parameters are results, which have no .grad of their own.",
                stacklevel=2,
            )
        for parameter in self.parameters():
            gradient = parameter.grad
            if gradient is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                gradient.detach_() if gradient.grad_fn else gradient.requires_grad_(False)
                gradient.zero_()

    # -- to another device or dtype -----------------------------------------------------------

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Moves and casts parameters and buffers, in place.

        ``to(device)``, ``to(dtype)``, ``to(device, dtype)``, ``to(tensor)`` (like that tensor),
        ``to(memory_format=...)``. Integer tensors keep their dtype.
        """
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )

        def convert(tensor: Any) -> Any:
            cast = dtype if tensor.is_floating_point() else None
            try:
                if memory_format is not None and tensor.dim() in (4, 5):
                    return tensor.to(device, cast, non_blocking, memory_format=memory_format)
                return tensor.to(device, cast, non_blocking)
            except NotImplementedError as error:
                if "meta tensor" not in str(error):
                    raise
                raise NotImplementedError(
                    f"{error} Please use torch.nn.Module.to_empty() instead of "
                    "torch.nn.Module.to() when moving module from meta to a different device."
                ) from None

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Moves to a device without copying: the tensors there are uninitialised."""
        return self._apply(lambda t: weft.empty_like(t, device=device), recurse=recurse)

    def cpu(self) -> Self:
        """Moves parameters and buffers to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Self:
        """Moves parameters and buffers to a CUDA device."""
        return self._apply(lambda t: t.cuda(device))

    def type(self, dst_type: Any) -> Self:
        """Casts all parameters and buffers to a dtype."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Self:
        """Casts floating-point parameters and buffers to float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Self:
        """Casts floating-point parameters and buffers to float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Self:
        """Casts floating-point parameters and buffers to float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self) -> Self:
        """Casts floating-point parameters and buffers to bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def share_memory(self) -> Self:
        """Moves parameters and buffers to memory that forked processes share."""
        return self._apply(lambda t: t.share_memory_())

    # -- as text ------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return self.__class__.__name__

    def extra_repr(self) -> str:
        """What stands between the parentheses of ``repr``; to be overridden."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        own = extra.split("\n") if extra else []
        below = [f"({name}): {_indented(repr(m))}" for name, m in self._modules.items()]
        if not below and len(own) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(own + below) + "\n)"

    # -- copies -------------------------------------------------------------------------------

    def _replicate_for_data_parallel(self) -> Self:
        replica = self.__new__(self.__class__)
        replica.__setstate__(self.__getstate__())
        replica._parameters = {}
        replica._buffers = dict(self._buffers)
        replica._modules = dict(self._modules)
        replica._is_replica = True
        return replica


def _indented(text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(f"  {line}" if line.strip() else "" for line in rest)])


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Device, dtype, non_blocking and memory format of a call of ``to``."""
    names: tuple[str, ...] = ("device", "dtype", "non_blocking", "copy")
    if args and isinstance(args[0], Tensor):
        kwargs["device"], kwargs["dtype"] = args[0].device, args[0].dtype
        names, args = names[2:], args[1:]
    elif args and isinstance(args[0], weft.dtype):
        names = names[1:]
    elif "tensor" in kwargs:
        like = kwargs.pop("tensor")
        kwargs["device"], kwargs["dtype"] = like.device, like.dtype
        names = names[2:]
    given = dict(zip(names, args, strict=False))
    unknown = kwargs.keys() - {"device", "dtype", "non_blocking", "copy", "memory_format"}
    if unknown or len(args) > len(names) or given.keys() & kwargs.keys():
        raise TypeError(
            "to() received an invalid combination of arguments: expected to(device, dtype, "
            "non_blocking), to(dtype, non_blocking) or to(tensor, non_blocking), each with an "
            "optional memory_format="
        )
    given.update(kwargs)
    device = given.get("device")
    if device is not None:
        device = weft.device(device)
    dtype = given.get("dtype")
    if dtype is not None and not isinstance(dtype, weft.dtype):
        raise TypeError(f"to(): argument 'dtype' must be weft.dtype, not {type(dtype).__name__}")
    return device, dtype, bool(given.get("non_blocking", False)), given.get("memory_format")


_core._set_module_parts(
    Module,
    _registration.LAZY_ATTRIBUTES,
    _hooks._global_forward_hooks,
    _hooks._global_forward_pre_hooks,
    _hooks._global_backward_hooks,
    _hooks._global_backward_pre_hooks,
    _registration._global_buffer_registration_hooks,
)

"""Hooks around a module's call, forward and backward.

A call without hooks never comes here: bind/module_type.cpp goes straight to ``forward``.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft._core import Tensor
from weft.autograd._handles import RemovableHandle
from weft.nn.modules import _registration
from weft.nn.modules._backward_hooks import BackwardHook, watch_result
from weft.nn.modules._registration import Registered

Hooks = OrderedDict[int, Callable[..., Any]]

# Those of all modules.
_global_forward_hooks: Hooks = OrderedDict()
_global_forward_pre_hooks: Hooks = OrderedDict()
_global_backward_hooks: Hooks = OrderedDict()
_global_backward_pre_hooks: Hooks = OrderedDict()
_global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
_global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
_global_is_full_backward_hook: bool | None = None

_MIXED = (
    "Cannot use both regular backward hooks and full backward hooks on a single Module. "
    "Please use only one of them."
)


def _add(
    hooks: Hooks, hook: Callable[..., Any], prepend: bool = False, **marks: Any
) -> RemovableHandle:
    """Registers a hook; each mark is a pair (whether it is set, the dictionary of those set)."""
    handle = RemovableHandle(hooks, extra_dict=[marked for _, marked in marks.values()])
    hooks[handle.id] = hook
    for is_set, marked in marks.values():
        if is_set:
            marked[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


class Hooked(Registered):
    """The part of :class:`Module` that runs hooks around a call."""

    _is_full_backward_hook: bool | None = None

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """``hook(module, args)`` runs before ``forward`` and may return other arguments.

        With ``with_kwargs`` it is called as ``hook(module, args, kwargs)`` and may return a pair of
        both. With ``prepend`` it runs before the hooks already there.
        """
        marked = self._forward_pre_hooks_with_kwargs
        return _add(self._forward_pre_hooks, hook, prepend, with_kwargs=(with_kwargs, marked))

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """``hook(module, args, output)`` runs after ``forward`` and may return another output.

        With ``with_kwargs`` it is called as ``hook(module, args, kwargs, output)``. With
        ``always_call`` it runs even when ``forward`` raises.
        """
        return _add(
            self._forward_hooks,
            hook,
            prepend,
            with_kwargs=(with_kwargs, self._forward_hooks_with_kwargs),
            always_call=(always_call, self._forward_hooks_always_called),
        )

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """``hook(module, grad_output)`` runs before the module's backward.

        It may return other gradients of the output to go on with.
        """
        return _add(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """``hook(module, grad_input, grad_output)`` runs when the inputs' gradients are there.

        It may return other gradients of the inputs. Gradients of what is no tensor, and of keyword
        arguments, are not shown.
        """
        if self._is_full_backward_hook is False:
            raise RuntimeError(_MIXED)
        self._is_full_backward_hook = True
        return _add(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older form, which sees the last operation of the module only.

        Use :meth:`register_full_backward_hook`.
        """
        if self._is_full_backward_hook is True:
            raise RuntimeError(_MIXED)
        self._is_full_backward_hook = False
        return _add(self._backward_hooks, hook)

    # -- the call -----------------------------------------------------------------------------

    def _wrapped_call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return self._call_impl(*args, **kwargs)

    def _call_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        run: set[int] = set()  # the always-called hooks that did
        state = _Call(args, kwargs)
        try:
            return self._run_with_hooks(state, run)
        except Exception:
            self._run_remaining_hooks(state, run)
            raise

    def _run_with_hooks(self, call: _Call, run: set[int]) -> Any:
        with_kwargs = self._own("_forward_pre_hooks_with_kwargs") or ()
        for key, hook in _with_global(_global_forward_pre_hooks, self._own("_forward_pre_hooks")):
            if key in with_kwargs:
                answer = hook(self, call.args, call.kwargs)
                if answer is None:
                    continue
                if not isinstance(answer, tuple) or len(answer) != 2:
                    raise RuntimeError(
                        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {answer}."
                    )
                call.args, call.kwargs = answer
            else:
                answer = hook(self, call.args)
                if answer is not None:
                    call.args = answer if isinstance(answer, tuple) else (answer,)

        full: list[Any] = []
        of_last_node: list[Any] = []
        if _global_backward_hooks or self._own("_backward_hooks"):
            full, of_last_node = self._get_backward_hooks()
        before: Sequence[Any] = ()
        if _global_backward_pre_hooks or self._own("_backward_pre_hooks"):
            before = self._get_backward_pre_hooks()
        backward = BackwardHook(self, full, before) if full or before else None
        if backward is not None:
            call.args = backward.setup_input_hook(call.args)

        call.result = self._call_forward(*call.args, **call.kwargs)
        always = self._own("_forward_hooks_always_called") or ()
        for key, hook in _with_global(_global_forward_hooks, self._own("_forward_hooks")):
            if key in always or key in _global_forward_hooks_always_called:
                run.add(key)
            answer = self._run_forward_hook(key, hook, call)
            if answer is not None:
                call.result = answer

        if backward is not None:
            if not isinstance(call.result, Tensor | tuple):
                warnings.warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple "
                    f"of Tensors but received {type(call.result)}",
                    stacklevel=4,
                )
            call.result = backward.setup_output_hook(call.result)
        if of_last_node:
            watch_result(self, of_last_node, call.args, call.result)
        return call.result

    def _run_forward_hook(self, key: int, hook: Callable[..., Any], call: _Call) -> Any:
        with_kwargs = self._own("_forward_hooks_with_kwargs") or ()
        if key in with_kwargs or key in _global_forward_hooks_with_kwargs:
            return hook(self, call.args, call.kwargs, call.result)
        return hook(self, call.args, call.result)

    def _run_remaining_hooks(self, call: _Call, run: set[int]) -> None:
        """After an error: the hooks that are always called and have not been."""
        for kind, hooks, always in (
            ("global module", _global_forward_hooks, _global_forward_hooks_always_called),
            ("module", self._forward_hooks, self._forward_hooks_always_called),
        ):
            for key in [k for k in hooks if k in always and k not in run]:
                try:
                    answer = self._run_forward_hook(key, hooks[key], call)
                    if answer is not None:
                        call.result = answer
                except Exception as error:
                    warnings.warn(
                        f"{kind} forward hook with ``always_call=True`` raised an exception that "
                        f"was silenced as another error was raised in forward: {error}",
                        stacklevel=4,
                    )

    def _get_backward_hooks(self) -> tuple[list[Any], list[Any]]:
        """The full backward hooks, and those of the older form."""
        full: list[Any] = []
        of_last_node: list[Any] = []
        for is_full, hooks in (
            (_global_is_full_backward_hook, _global_backward_hooks),
            (self._is_full_backward_hook, self._backward_hooks),
        ):
            if is_full is not None:
                (full if is_full else of_last_node).extend(hooks.values())
        return full, of_last_node

    def _get_backward_pre_hooks(self) -> list[Any]:
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]


def _with_global(of_all: Hooks, own: Hooks | None) -> Iterable[tuple[int, Callable[..., Any]]]:
    """The hooks to run: as they are now, because a hook may take itself away."""
    return [*of_all.items(), *own.items()] if own else list(of_all.items())


class _Call:
    """One call under way: what hooks may exchange."""

    __slots__ = ("args", "kwargs", "result")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs
        self.result: Any = None


# -- for all modules --------------------------------------------------------------------------


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """``hook(module, args)`` runs before every module's ``forward``."""
    return _add(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """``hook(module, args, output)`` runs after every module's ``forward``."""
    return _add(
        _global_forward_hooks,
        hook,
        with_kwargs=(with_kwargs, _global_forward_hooks_with_kwargs),
        always_call=(always_call, _global_forward_hooks_always_called),
    )


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The older form of :func:`register_module_full_backward_hook`."""
    return _add_global_backward(hook, full=False)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """``hook(module, grad_output)`` runs before every module's backward."""
    return _add(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """``hook(module, grad_input, grad_output)`` runs in every module's backward."""
    return _add_global_backward(hook, full=True)


def _add_global_backward(hook: Callable[..., Any], full: bool) -> RemovableHandle:
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module "
            "hook. Please use only one of them."
        )
    _global_is_full_backward_hook = full
    return _add(_global_backward_hooks, hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """``hook(module, name, buffer)`` sees every buffer registered, and may return another."""
    return _add(_registration._global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """``hook(module, name, submodule)`` sees every submodule registered; may return another."""
    return _add(_registration._global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """``hook(module, name, parameter)`` sees every parameter registered; may return another."""
    return _add(_registration._global_parameter_registration_hooks, hook)

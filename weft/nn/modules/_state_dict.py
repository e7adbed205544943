"""A module's state as a flat dictionary, and back."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from weft._core import Tensor
from weft.autograd import no_grad
from weft.autograd._handles import RemovableHandle
from weft.nn.modules._registration import Registered
from weft.nn.parameter import Parameter, is_lazy

EXTRA_STATE_KEY = "_extra_state"


class _Keys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]


class _IncompatibleKeys(_Keys):
    """What ``load_state_dict`` did not find, and what it found no place for."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys({', '.join(f'{k}={v!r}' for k, v in self._asdict().items())})"

    __str__ = __repr__


class _WrappedHook:
    """A hook that is handed its module first, without keeping that module alive."""

    def __init__(self, hook: Callable[..., Any], module: Any = None) -> None:
        self.hook = hook
        functools.update_wrapper(self, hook)
        self.with_module = module is not None
        if self.with_module:
            self.module = weakref.ref(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook = state["hook"]
        self.with_module = state["with_module"]
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError("You are trying to revive the hook of a dead Module!")
            self.module = weakref.ref(state["module"])


class Stateful(Registered):
    """The part of :class:`Module` that saves and loads its state."""

    _version: int = 1

    # -- hooks --------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """``hook(module, prefix, keep_vars)`` runs before the module's state is collected."""
        return _register(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Any) -> RemovableHandle:
        """``hook(module, state_dict, prefix, local_metadata)`` may change the state in place."""
        hook._from_public_api = True
        return _register(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older form of a post-hook, which may also return another dictionary."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook"
            )
        return _register(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """``hook`` runs before this module takes its state.

        It is called with ``(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)`` and may change the dictionary, for instance to rename keys
        of older checkpoints.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        wrapped = _WrappedHook(hook, self if with_module else None)
        return _register(self._load_state_dict_pre_hooks, wrapped)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """``hook(module, incompatible_keys)`` runs after loading; it may change the two lists."""
        return _register(self._load_state_dict_post_hooks, hook)

    # -- state a class adds of its own --------------------------------------------------------

    def get_extra_state(self) -> Any:
        """What a class wants in ``state_dict()`` beside tensors; to be overridden."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. "
            f"{type(self).__name__} has to override get_extra_state() as well as set_extra_state()."
        )

    def set_extra_state(self, state: Any) -> None:
        """Takes back what :meth:`get_extra_state` gave; to be overridden."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. "
            f"{type(self).__name__} has to override set_extra_state() as well as get_extra_state()."
        )

    # -- saving -------------------------------------------------------------------------------

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """All parameters and persistent buffers by their full names.

        The tensors share their memory with the module's. With ``keep_vars`` they are the very
        objects, history included.

        >>> list(weft.nn.Linear(2, 1).state_dict())
        ['weight', 'bias']
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead: "
                "state_dict(destination=..., prefix=..., keep_vars=...)",
                FutureWarning,
                stacklevel=2,
            )
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            destination = given.get("destination") if destination is None else destination
            prefix = prefix or given.get("prefix", "")
            keep_vars = keep_vars or given.get("keep_vars", False)
        if destination is None:
            destination = cast(Any, OrderedDict())
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata

        for hook in _hooks_of(self, "_state_dict_pre_hooks"):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in _hooks_of(self, "_state_dict_hooks"):
            answer = hook(self, destination, prefix, local_metadata)
            if answer is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = answer
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Puts what belongs to this module alone into ``destination``."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        not_saved = self._own("_non_persistent_buffers_set") or ()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in not_saved:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + EXTRA_STATE_KEY] = self.get_extra_state()

    # -- loading ------------------------------------------------------------------------------

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copies parameters and buffers from a dictionary that :meth:`state_dict` made.

        With ``strict`` the keys must be exactly those of this module. With ``assign`` the tensors
        of the dictionary take the place of the module's own, instead of being copied into them
        (make the optimiser afterwards).
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        own_copy: Any = OrderedDict(state_dict)  # hooks may change it
        if metadata is not None:
            own_copy._metadata = metadata

        def load(module: Any, state: Any, prefix: str) -> None:
            local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local_metadata["assign_to_params_buffers"] = assign
            module._load_from_state_dict(
                state, prefix, local_metadata, True, missing, unexpected, errors
            )
            parts = _by_child(state, prefix)
            for name, child in module._modules.items():
                if child is not None:
                    load(child, parts.get(name, {}), f"{prefix}{name}.")
            for hook in _hooks_of(module, "_load_state_dict_post_hooks"):
                if hook(module, _IncompatibleKeys(missing, unexpected)) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not "
                        "expected to return new values, if incompatible_keys need to be modified, "
                        "it should be done inplace."
                    )

        load(self, own_copy, "")
        if strict:
            if unexpected:
                errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
            if missing:
                errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if errors:
            raise RuntimeError(
                "Error(s) in loading state_dict for {}:\n\t{}".format(
                    type(self).__name__, "\n\t".join(errors)
                )
            )
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Takes what belongs to this module alone; classes override it to read older formats."""
        for hook in _hooks_of(self, "_load_state_dict_pre_hooks"):
            hook(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        assign = local_metadata.get("assign_to_params_buffers", False)
        not_saved = self._own("_non_persistent_buffers_set") or ()
        own = {name: p for name, p in self._parameters.items() if p is not None}
        own |= {n: b for n, b in self._buffers.items() if b is not None and n not in not_saved}
        for name, current in own.items():
            key = prefix + name
            if key in state_dict:
                problem = self._load_one(name, current, key, state_dict[key], assign)
                if problem:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(key)

        extra_key = prefix + EXTRA_STATE_KEY
        if type(self).set_extra_state is not Stateful.set_extra_state:
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)

        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra_key:
                    name, dot, _ = key[len(prefix) :].partition(".")
                    if name not in (self._modules if dot else own):
                        unexpected_keys.append(key)

    def _load_one(self, name: str, current: Any, key: str, loaded: Any, assign: bool) -> str:
        """Loads one tensor; returns what is wrong with it, or an empty text."""
        if not isinstance(loaded, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
                f"object from checkpoint but received {type(loaded)}"
            )
        if not is_lazy(current):
            if current.dim() == 0 and loaded.dim() == 1:
                loaded = loaded[0]  # as very old checkpoints hold single numbers
            if loaded.shape != current.shape:
                return (
                    f"size mismatch for {key}: copying a param with shape {loaded.shape} from "
                    f"checkpoint, the shape in current model is {current.shape}."
                )
            if current.is_meta and not loaded.is_meta and not assign:
                warnings.warn(
                    f"for {key}: copying from a non-meta parameter in the checkpoint to a meta "
                    "parameter in the current model, which is a no-op. (Did you mean to pass "
                    "`assign=True` to assign items in the state dictionary to their corresponding "
                    "key in the module instead of copying them in place?)",
                    stacklevel=4,
                )
        try:
            with no_grad():
                if not assign:
                    current.copy_(loaded)
                    return ""
                if isinstance(current, Parameter):
                    if isinstance(loaded, Parameter):
                        loaded.requires_grad_(current.requires_grad)
                    else:
                        loaded = Parameter(loaded, requires_grad=current.requires_grad)
                setattr(self, name, loaded)
        except Exception as error:
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are '
                f"{current.size()} and whose dimensions in the checkpoint are {loaded.size()}, "
                f"an exception occurred : {error.args}."
            )
        return ""


def _by_child(state: Any, prefix: str) -> dict[str, dict[str, Any]]:
    """The entries below each child: in one pass, for there may be thousands of children."""
    parts: dict[str, dict[str, Any]] = {}
    start = len(prefix)
    for key, value in state.items():
        if key.startswith(prefix):
            end = key.find(".", start)
            if end >= 0:
                parts.setdefault(key[start:end], {})[key] = value
    return parts


def _register(hooks: Any, hook: Callable[..., Any]) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def _hooks_of(module: Any, name: str) -> Any:
    """The registered hooks; modules without any are not given a dictionary for them."""
    hooks = module._own(name)
    return hooks.values() if hooks else ()


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)

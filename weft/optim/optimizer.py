"""What all optimisers share: groups of parameters, their state, saving and loading it, hooks."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any, TypeAlias

from weft import _core
from weft._callers import Line, calling_frame, calling_line
from weft._functions import typename
from weft.utils.hooks import RemovableHandle

Tensor = _core.Tensor
ParamsT: TypeAlias = Iterable[Any]  # tensors, pairs (name, tensor), or dicts that describe groups
StateDict: TypeAlias = dict[str, Any]
Hook: TypeAlias = Callable[..., Any]

_global_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
_global_post_hooks: OrderedDict[int, Hook] = OrderedDict()


# The line that last gave parameters to an optimizer: the doctor names it when some are missing.
last_made_at: Line | None = None


class _Required:
    """Stands for an option that every parameter group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Calls ``hook(optimizer, args, kwargs)`` before every step of every optimiser."""
    return _add_hook(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Calls ``hook(optimizer, args, kwargs)`` after every step of every optimiser."""
    return _add_hook(_global_post_hooks, hook)


def _add_hook(hooks: OrderedDict[int, Hook], hook: Hook, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def _observed(step: Callable[..., Any]) -> Callable[..., Any]:
    """A ``step`` written in Python, which tells the doctor what gradients it has used."""

    @functools.wraps(step)
    def observed_step(*args: Any, **kwargs: Any) -> Any:
        result = step(*args, **kwargs)
        if "_updaters" not in args[0].__dict__:
            args[0]._tell_doctor()
        return result

    return observed_step


def _hooked(step: Callable[..., Any]) -> Callable[..., Any]:
    """A class's ``step`` with the hooks around it."""

    @functools.wraps(step)
    def hooked_step(*args: Any, **kwargs: Any) -> Any:
        self = args[0]
        before, after = self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks
        if not (before or after or _global_pre_hooks or _global_post_hooks):
            return step(*args, **kwargs)
        if "_inside_step" in self.__dict__:  # called by the step of a subclass, which has hooks
            return step(*args, **kwargs)
        for hook in chain(_global_pre_hooks.values(), before.values()):
            changed = hook(self, args, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(
                    f"{step} must return None or a tuple of (new_args, new_kwargs), "
                    f"but got {changed}."
                )
            args, kwargs = changed
        self._inside_step = True
        try:
            result = step(*args, **kwargs)
        finally:
            del self._inside_step
        for hook in chain(after.values(), _global_post_hooks.values()):
            hook(self, args, kwargs)
        return result

    hooked_step.hooked = True  # type: ignore[attr-defined]
    return hooked_step


class Optimizer:
    """Base class of all optimisers.

    ``params`` are the tensors to optimise, pairs of a name and a tensor, or dicts that describe
    groups with options of their own; ``defaults`` are the options of groups that do not give them.
    A subclass writes ``step``, which reads ``p.grad`` for every ``p`` of ``self.param_groups`` and
    keeps what it needs in ``self.state[p]``.

    >>> optimizer = weft.optim.SGD([{"params": body}, {"params": head, "lr": 1e-2}], lr=1e-3)
    """

    defaults: dict[str, Any]
    state: defaultdict[Any, Any]
    param_groups: list[dict[str, Any]]

    _HOOKS = (
        "_optimizer_step_pre_hooks",
        "_optimizer_step_post_hooks",
        "_optimizer_state_dict_pre_hooks",
        "_optimizer_state_dict_post_hooks",
        "_optimizer_load_state_dict_pre_hooks",
        "_optimizer_load_state_dict_post_hooks",
    )
    _optimizer_step_pre_hooks: OrderedDict[int, Hook]
    _optimizer_step_post_hooks: OrderedDict[int, Hook]
    _optimizer_state_dict_pre_hooks: OrderedDict[int, Hook]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Hook]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Hook]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Hook]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        for name in self._HOOKS:
            setattr(self, name, OrderedDict())
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {typename(params)}: write [parameter] for a single one"
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        step = cls.__dict__.get("step")
        if step is not None and not hasattr(step, "hooked"):
            # The core tells the doctor itself of the steps that it takes.
            in_core = step.__module__ == "weft.optim._stepping"
            cls.step = _hooked(step if in_core else _observed(step))  # type: ignore[method-assign]

    # -- copies and printing -------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles hold; hooks belong to this object alone."""
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Also what ``load_state_dict`` ends with: options that older versions did not save are
        given their defaults here."""
        self.__dict__.update(state)
        for name in self._HOOKS:
            if name not in self.__dict__:
                setattr(self, name, OrderedDict())

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for index, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {index}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    # -- the parameters ------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters to train, with options of their own: layers that are unfrozen later."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        _separate_names(param_group)
        for param in param_group["params"]:
            if not isinstance(param, Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is "
                    + typename(param)
                )
            if not (self.defaults.get("differentiable") or param.is_leaf or param.retains_grad):
                raise ValueError(
                    "can't optimize a non-leaf Tensor: it is computed from others, which are what "
                    "can be trained"
                )
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    + name
                )
            param_group.setdefault(name, default)

        own = set(param_group["params"])
        if len(own) != len(param_group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; "
                "in future, this will cause an error; each is updated as often as it is listed",
                stacklevel=3,
            )
        named = "param_names" in param_group
        for group in self.param_groups:
            if named != ("param_names" in group):
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param "
                    f"group {'with' if named else 'without'} names to the optimizer"
                )
            if not own.isdisjoint(group["params"]):
                raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)
        for param in param_group["params"]:
            _core._mark_optimised(param)
        global last_made_at
        last_made_at = calling_line()
        self.__dict__.setdefault("_made_at", last_made_at)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of all parameters; call it before every backward pass.

        With ``set_to_none=False`` they become zeros, so that parameters which take no part in the
        next backward pass are updated with a gradient of zero instead of being left alone.
        """
        for group in self.param_groups:
            if set_to_none:
                _core._clear_gradients(group["params"])
                continue
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                if grad.grad_fn is not None:
                    grad.detach_()
                else:
                    grad.requires_grad_(False)
                grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters by their gradients.

        ``closure`` computes the loss and its gradients again, and returns the loss.
        """
        raise NotImplementedError

    def _tell_doctor(self) -> None:
        """A step has been taken without the core's updaters."""
        notes = self.__dict__.setdefault("_doctor_notes", [])
        frame = calling_frame()
        if frame is None:
            return
        for index, group in enumerate(self.param_groups):
            if index == len(notes):
                notes.append({})
            _core._observe_step(notes[index], group["params"], frame)

    # -- saving and loading --------------------------------------------------------------------

    def state_dict(self) -> StateDict:
        """The state and the options of all groups, where numbers stand for the parameters.

        The tensors are those of the optimiser, not copies.
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        start = 0
        for group in self.param_groups:
            params = group["params"]
            for number, param in enumerate(params, start):
                numbers.setdefault(id(param), number)
            start += len(params)
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(param)] for param in params]
            groups.append(packed)
        state = {
            numbers[id(key)] if isinstance(key, Tensor) else key: value
            for key, value in self.state.items()
        }
        result: StateDict = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            result = result if changed is None else changed
        return result

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Continues from what ``state_dict()`` gave, here or in PyTorch, for as many parameters.

        Tensors are copied, to the dtype and device of their parameter.
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed

        saved_groups = [
            {key: _own(value) for key, value in group.items()}
            for group in state_dict["param_groups"]
        ]
        if len(saved_groups) != len(self.param_groups):
            raise ValueError(
                "loaded state dict has a different number of parameter groups: "
                f"{len(saved_groups)}, where this optimizer has {len(self.param_groups)}"
            )
        params: dict[Any, Any] = {}
        for index, (group, saved) in enumerate(zip(self.param_groups, saved_groups, strict=True)):
            if len(saved["params"]) != len(group["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    f"optimizer's group: group {index} has {len(group['params'])} parameters, the "
                    f"loaded one {len(saved['params'])}"
                )
            params.update(zip(saved["params"], group["params"], strict=True))
            saved["params"] = group["params"]
            if "param_names" in group:
                saved.setdefault("param_names", group["param_names"])

        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                state[params[key]] = _fitted(params[key], value)
            else:
                state[key] = value
        self.__setstate__({"state": state, "param_groups": saved_groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    # -- hooks ---------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Calls ``hook(optimizer, args, kwargs)`` before each step; it may return other ones."""
        return _add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Calls ``hook(optimizer, args, kwargs)`` after each step."""
        return _add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer)`` before ``state_dict()`` collects anything."""
        return _add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)``, which may change the dict or return another."""
        return _add_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)`` first; it may return another dict to load."""
        return _add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(optimizer)`` after a state has been loaded."""
        return _add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)


def _separate_names(group: dict[str, Any]) -> None:
    """Makes ``params`` of a group a list of tensors, and ``param_names`` one of their names."""
    params = group["params"]
    if isinstance(params, Tensor):
        group["params"] = [params]
        return
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but "
            "the ordering of tensors in sets will change between runs. Please use a list instead."
        )
    items = list(params)
    names = [item[0] for item in items if isinstance(item, tuple)]
    if names and len(names) != len(items):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    group["params"] = [item[1] for item in items] if names else items
    if names:
        group["param_names"] = names


def _as_tensor(value: Any) -> Any:
    """A copy of a tensor of weft's or of another framework's; None for everything else."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if hasattr(value, "__dlpack__"):
        from weft._functions import from_dlpack

        return from_dlpack(value.detach() if hasattr(value, "detach") else value).clone()
    return None


def _own(value: Any) -> Any:
    """An option of a group, independent of the dict that it was loaded from."""
    tensor = _as_tensor(value)
    return deepcopy(value) if tensor is None else tensor


# Numbers beside a parameter keep their own dtype: a count of steps would not be exact in bfloat16.
_NUMBERS = frozenset(("step", "mu_product", "eta", "mu"))


def _fitted(param: Any, value: Any, key: Any = None) -> Any:
    """What was saved for a parameter, as the parameter needs it now."""
    tensor = _as_tensor(value)
    if tensor is not None:
        if key in _NUMBERS:
            return tensor
        dtype = param.dtype if param.is_floating_point() else tensor.dtype
        return tensor.to(device=param.device, dtype=dtype)
    if isinstance(value, dict):
        return {name: _fitted(param, item, name) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return type(value)(_fitted(param, item) for item in value)  # type: ignore[call-arg]
    return value

"""What a module consists of: its parameters, buffers and submodules, and how they are found."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from weft import _core
from weft._core import Tensor
from weft._functions import typename
from weft.nn.parameter import Buffer, Parameter

# What an instance's __dict__ holds as soon as somebody asks for it.
LAZY_ATTRIBUTES: dict[str, Callable[[], Any]] = {
    **dict.fromkeys(
        (
            "_backward_hooks", "_backward_pre_hooks", "_forward_hooks",
            "_forward_hooks_always_called", "_forward_hooks_with_kwargs", "_forward_pre_hooks",
            "_forward_pre_hooks_with_kwargs", "_load_state_dict_post_hooks",
            "_load_state_dict_pre_hooks", "_state_dict_hooks", "_state_dict_pre_hooks",
        ),
        OrderedDict,
    ),
    "_non_persistent_buffers_set": set,
}  # fmt: skip

# Hooks that are asked, for every module, about what it is about to register.
_global_buffer_registration_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_module_registration_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_parameter_registration_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()


def _asked(hooks: OrderedDict[int, Callable[..., Any]], module: Any, name: str, value: Any) -> Any:
    """The value, or what a hook would have in its place."""
    for hook in hooks.values():
        answer = hook(module, name, value)
        if answer is not None:
            value = answer
    return value


def _check_name(module: Any, kind: str, name: Any, registered: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain "."')
    if name == "":
        raise KeyError(f'{kind} name can\'t be empty string ""')
    if name not in registered and hasattr(module, name):
        raise KeyError(f"attribute '{name}' already exists")


class Registered(_core.ModuleBase):
    """The part of :class:`Module` that knows its parameters, buffers and submodules."""

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter; ``None`` reserves the name."""
        if self._own("_parameters") is None:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        _check_name(self, "parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{typename(param)}' object to parameter '{name}' "
                    "(torch.nn.Parameter or None required)"
                )
            if param.grad_fn:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must "
                    f"be created explicitly. To express '{name}' as a function of another Tensor, "
                    "compute the value in the forward() method."
                )
            param = _asked(_global_parameter_registration_hooks, self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that belongs to the module's state but is not trained.

        It moves with the module (``to``, ``cuda``, ``double``), and is part of ``state_dict()``
        unless ``persistent`` is False.
        """
        if self._own("_buffers") is None:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        _check_name(self, "buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        self._buffers[name] = _asked(_global_buffer_registration_hooks, self, name, tensor)
        if not persistent:
            self._non_persistent_buffers_set.add(name)
        else:
            self._save_again(name)

    def add_module(self, name: str, module: Any) -> None:
        """Adds a submodule, as assigning it to an attribute does; ``None`` reserves the name."""
        if not isinstance(module, Registered) and module is not None:
            raise TypeError(f"{typename(module)} is not a Module subclass")
        if not isinstance(name, str):
            raise TypeError(f"module name should be a string. Got {typename(name)}")
        if name not in self._modules and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'module name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError('module name can\'t be empty string ""')
        self._modules[name] = _asked(_global_module_registration_hooks, self, name, module)

    def register_module(self, name: str, module: Any) -> None:
        """Another name for :meth:`add_module`."""
        self.add_module(name, module)

    # -- attributes (what the fast paths in bind/module_type.cpp do not decide) ----------------

    def _set_registered(self, name: str, value: Any) -> None:
        """Assigns to an attribute where the value or the name is that of something registered."""
        parameters, modules = self._own("_parameters"), self._own("_modules")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, self._buffers, self._modules)
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' "
                    "(torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
        elif isinstance(value, Registered):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, self._parameters, self._buffers)
            modules[name] = _asked(_global_module_registration_hooks, self, name, value)
        elif modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' "
                    "(torch.nn.Module or None expected)"
                )
            modules[name] = _asked(_global_module_registration_hooks, self, name, value)
        elif isinstance(value, Buffer) or name in (self._own("_buffers") or ()):
            self._set_buffer(name, value)
        else:
            object.__setattr__(self, name, value)

    def _forget(self, name: str, *registries: dict[str, Any]) -> None:
        """Takes a name away from where it stood before it is given to something else."""
        self._forget_own(name)
        for registry in registries:
            registry.pop(name, None)
        self._save_again(name)

    def _save_again(self, name: str) -> None:
        """The name is no longer that of a buffer left out of ``state_dict()``."""
        not_saved = self._own("_non_persistent_buffers_set")
        if not_saved:
            not_saved.discard(name)

    def _set_buffer(self, name: str, value: Any) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(
                f"cannot assign '{typename(value)}' as buffer '{name}' "
                "(torch.nn.Buffer, torch.Tensor or None expected)"
            )
        if isinstance(value, Buffer):
            persistent = value.persistent
        else:
            persistent = name not in self._non_persistent_buffers_set
        import inspect

        # Classes exist whose register_buffer() does not know `persistent`.
        if "persistent" in inspect.signature(self.register_buffer).parameters:
            self.register_buffer(name, value, persistent)
        elif persistent:
            self.register_buffer(name, value)
        else:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements "
                "register_buffer() without the persistent argument is not allowed."
            )

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._save_again(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = [
            *dir(self.__class__),
            *vars(self),
            *LAZY_ATTRIBUTES,
            *self._parameters,
            *self._modules,
            *self._buffers,
        ]
        # Children called "0", "1" ... are no attributes that can be written down.
        return sorted(name for name in names if not name[0].isdigit())

    # -- by path ------------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Any:
        """The submodule at a path such as ``"encoder.layers.0"``; ``""`` is the module itself."""
        found = self
        for name in target.split(".") if target else ():
            found = _attribute(found, name)
            if not isinstance(found, Registered):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return found

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Puts a module at a path, in place of another one or (unless ``strict``) as a new one."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Registered):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if (strict or hasattr(parent, name)) and not isinstance(
            _attribute(parent, name), Registered
        ):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path such as ``"encoder.weight"``."""
        path, _, name = target.rpartition(".")
        found = _attribute(self.get_submodule(path), name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a path such as ``"norm.running_mean"``."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        found: Tensor = _attribute(owner, name)
        if name not in owner._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    # -- all of them --------------------------------------------------------------------------

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """What a function finds in each module, under its full name, everything once."""
        seen = set()
        modules: Iterable[tuple[str, Any]] = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield f"{path}.{name}" if path else name, member

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and (with ``recurse``) of those in it, each once."""
        plain = recurse and type(self).named_parameters is Registered.named_parameters
        found = self._collect("_parameters") if plain else None
        if found is not None:
            yield from found
            return
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their full names.

        >>> [name for name, _ in weft.nn.Sequential(weft.nn.Linear(2, 1)).named_parameters()]
        ['0.weight', '0.bias']
        """
        yield from self._named_members(_parameters_of, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers of this module and (with ``recurse``) of those in it, each once."""
        plain = recurse and type(self).named_buffers is Registered.named_buffers
        found = self._collect("_buffers") if plain else None
        if found is not None:
            yield from found
            return
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their full names."""
        yield from self._named_members(_buffers_of, prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Any]:
        """The modules right below this one, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """The modules right below this one with their names, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """This module and all modules in it, each once unless ``remove_duplicate`` is False."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """This module (as ``""``) and all modules in it, with their full names."""
        if memo is None:
            memo = set()
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)


def _parameters_of(module: Any) -> Iterable[tuple[str, Any]]:
    return module._parameters.items()  # type: ignore[no-any-return]


def _buffers_of(module: Any) -> Iterable[tuple[str, Any]]:
    return module._buffers.items()  # type: ignore[no-any-return]


def _attribute(module: Any, name: str) -> Any:
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    return getattr(module, name)

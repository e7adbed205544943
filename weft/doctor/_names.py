"""What things are called in the user's program: modules, parameters, and where they were made."""

from __future__ import annotations

import ast
import functools
import gc
import inspect
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from weft._callers import Line, is_own_file
from weft.doctor import _source


def all_modules() -> list[Any]:
    """Every module that is alive: only asked when there is something to explain."""
    nn = sys.modules.get("weft.nn")
    if nn is None:
        return []
    # isinstance() would ask strangers for their __class__, and some of them answer with a warning.
    return [thing for thing in gc.get_objects() if issubclass(type(thing), nn.Module)]


def owner_of(parameter: Any, modules: Sequence[Any]) -> tuple[Any, str] | None:
    """The module that registers a parameter itself, and under which name."""
    for module in modules:
        for name, own in module._parameters.items():
            if own is parameter:
                return module, name
    return None


def path_in(root: Any, module: Any) -> str | None:
    """``encoder.layers.0``: the name of a module below another; None if it is not registered."""
    for name, inner in root.named_modules():
        if inner is module:
            return str(name)
    return None


def module_path(scope: Sequence[Any]) -> str | None:
    """The path of the innermost of the modules being called, as seen from the outermost."""
    alive = [module for module in scope if module is not None]
    if not alive:
        return None
    path = path_in(alive[0], alive[-1])
    root = type(alive[0]).__name__
    return f"{root}.{path}" if path else root


def roots(modules: Sequence[Any]) -> list[Any]:
    """The modules that no other one has registered."""
    inner = {id(child) for module in modules for child in module.children()}
    return [module for module in modules if id(module) not in inner]


def parameter_name(parameter: Any, modules: Sequence[Any]) -> str:
    """``Model.encoder.weight``, or the shape of a parameter that nobody owns."""
    for root in roots(modules):
        for name, own in root.named_parameters():
            if own is parameter:
                return f"{type(root).__name__}.{name}"
    return f"a parameter of shape {list(parameter.shape)}"


def holders_of(module: Any, modules: Sequence[Any]) -> Iterator[tuple[Any, str]]:
    """(module, attribute) that hold a module or a tensor outside of their registries: in a plain
    list, tuple, set or dict, or as a plain attribute."""
    for holder in modules:
        for attribute, value in list(holder.__dict__.items()):
            if attribute not in _REGISTRIES and _contains(value, module):
                yield holder, attribute


_REGISTRIES = frozenset(("_parameters", "_buffers", "_modules"))


def _contains(value: Any, wanted: Any, depth: int = 3) -> bool:
    if value is wanted:
        return True
    if depth == 0:
        return False
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple, set)):
        return False
    return any(_contains(item, wanted, depth - 1) for item in list(value))


def container_of(module: Any, modules: Sequence[Any]) -> tuple[Any, str] | None:
    """The module that registers a module, and under which name."""
    for parent in modules:
        for name, child in parent._modules.items():
            if child is module:
                return parent, name
    return None


def made_at(owner: Any, name: str, modules: Sequence[Any]) -> Line | None:
    """The line in a class of the user's that made a parameter, or the module that has it."""
    line = assignment_line(owner, name)
    child = owner
    while line is None and (above := container_of(child, modules)) is not None:
        line = assignment_line(*above)
        child = above[0]
    return line


def listed(names: Sequence[str]) -> str:
    """Three of them, and how many more there are."""
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def assignment_line(owner: Any, attribute: str) -> Line | None:
    """The line of ``self.attribute = ...`` in the class of the owner, or of its bases."""
    for cls in type(owner).__mro__:
        line = _assignments(cls).get(attribute)
        if line is not None:
            return line
    return None


@functools.cache
def _assignments(cls: type) -> dict[str, Line]:
    codes = [getattr(member, "__code__", None) for member in vars(cls).values()]
    code = next((code for code in codes if code is not None), None)
    if code is None or is_own_file(file := code.co_filename):
        return {}
    tree = _source.class_around((file, code.co_firstlineno), cls.__name__)
    if tree is None:
        return {}
    found: dict[str, Line] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
            targets = [node.target]
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                found.setdefault(target.attr, (file, node.lineno))
    return found


def mentions(owner: Any, attribute: str) -> bool:
    """Whether any method of the owner's class, other than its constructor, names the attribute."""
    for cls in type(owner).__mro__:
        for name, member in vars(cls).items():
            if name == "__init__" or not callable(member):
                continue
            code = getattr(inspect.unwrap(member), "__code__", None)
            users = code is not None and not is_own_file(code.co_filename)
            if users and _mentioned(code, attribute):
                return True
    return False


def _mentioned(code: Any, attribute: str) -> bool:
    if attribute in code.co_names:
        return True
    return any(_mentioned(c, attribute) for c in code.co_consts if inspect.iscode(c))

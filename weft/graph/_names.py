"""Names for what has none by itself: modules by their path, leaves by parameter or variable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from weft._core import Tensor

Node = Any


class ModulePaths:
    """The paths of modules, found through ``named_modules`` of the outermost one."""

    def __init__(self) -> None:
        self._paths: dict[int, dict[int, str]] = {}
        self._kept: list[Any] = []  # an id stands for its object only while that is alive

    def of(self, outermost: Any, module: Any) -> str:
        """``layers.0`` for a module inside ``outermost``; its type for one that is not."""
        paths = self._paths.get(id(outermost))
        if paths is None:
            paths = self._paths[id(outermost)] = {
                id(inner): path for path, inner in outermost.named_modules()
            }
            self._kept.append(outermost)
        return paths.get(id(module), type(module).__name__)

    def step(self, scope: tuple[Any, ...], depth: int) -> str:
        """The name of ``scope[depth]`` as seen from the module around it."""
        if depth == 0:
            return type(scope[0]).__name__
        path = self.of(scope[0], scope[depth])
        around = self.of(scope[0], scope[depth - 1]) if depth > 1 else ""
        return path.removeprefix(around + ".") if around else path


def scope_of(node: Node) -> tuple[Any, ...]:
    """The modules in whose calls a node was recorded; those that are gone are left out."""
    return tuple(module for module in node.scope if module is not None)


class LeafNames:
    """The names of leaf tensors: those of parameters first, then of variables."""

    def __init__(self, *variables: Mapping[str, Any]) -> None:
        """A tensor that has several names goes by the first."""
        self._names: dict[int, str] = {}
        self._owners: dict[int, Any] = {}
        self._kept: list[Any] = []
        for table in variables:
            for name in sorted(table, key=lambda name: name.startswith("_")):
                self._add(name, table[name])

    def _add(self, name: str, value: Any) -> None:
        if isinstance(value, Tensor):
            self._name(value, name)
        elif isinstance(value, list | tuple) and len(value) <= 1000:
            for i, item in enumerate(value):
                if isinstance(item, Tensor):
                    self._name(item, f"{name}[{i}]")
        elif isinstance(value, dict) and len(value) <= 1000:
            for key, item in value.items():
                if isinstance(item, Tensor):
                    self._name(item, f"{name}[{key!r}]")

    def _name(self, tensor: Any, name: str) -> None:
        if tensor.requires_grad and tensor.is_leaf and id(tensor) not in self._names:
            self._names[id(tensor)] = name
            self._kept.append(tensor)

    def add_modules(self, outermost: Iterable[Any]) -> None:
        """Parameters of these modules are named by their path, and belong to their module."""
        for module in outermost:
            for path, inner in module.named_modules():
                for name, parameter in inner.named_parameters(recurse=False):
                    self._names[id(parameter)] = f"{path}.{name}" if path else name
                    self._owners[id(parameter)] = inner
                    self._kept.append(parameter)

    def name(self, leaf: Any) -> str:
        return self._names.get(id(leaf), "")

    def owner(self, leaf: Any) -> Any:
        """The module whose parameter this is, or None."""
        return self._owners.get(id(leaf))

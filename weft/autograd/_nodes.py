"""What Python can ask of a node (``tensor.grad_fn``): its hooks and what it saved.

The node type itself is C++ (bind/node_type.cpp); this gives names to what it holds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from weft import _core
from weft.autograd._handles import RemovableHandle

Hook = Callable[..., Any]

# Where the core counts results from, after the inputs.
_FIRST_RESULT = 16


class InputMetadata(NamedTuple):
    """What a node knows of one of its results: the gradient that comes in must fit."""

    shape: Any
    dtype: Any


def hooks_of(node: Any, key: int | str) -> OrderedDict[int, Hook]:
    """The hooks of a node: of its result ``key``, or those called ``"pre"`` and ``"post"``."""
    if node._hooks is None:
        node._hooks = {}
    hooks: OrderedDict[int, Hook] = node._hooks.setdefault(key, OrderedDict())
    return hooks


def add_hook(hooks: OrderedDict[int, Hook], hook: Hook) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def register_hook(self: Any, hook: Hook) -> RemovableHandle:
    """Calls ``hook(grad_inputs, grad_outputs)`` after this node's derivative has been computed."""
    return add_hook(hooks_of(self, "post"), hook)


def register_prehook(self: Any, hook: Hook) -> RemovableHandle:
    """Calls ``hook(grad_outputs)`` before this node's derivative is computed."""
    return add_hook(hooks_of(self, "pre"), hook)


class SavedTensor:
    """A value that a node keeps for backward: ``node._raw_saved_self``."""

    def __init__(self, node: Any, source: int) -> None:
        self._node = node
        self._source = source

    @property
    def data(self) -> Any:
        return self._node._saved_value(self._source)

    def register_hooks(self, pack_hook: Hook, unpack_hook: Hook) -> None:
        """Replaces the value by ``pack_hook(value)``; backward gets ``unpack_hook`` of that."""
        for hook in (pack_hook, unpack_hook):
            if not callable(hook):
                raise TypeError(f"a saved tensor's hooks must be callable, got {hook!r}")
        self._node._pack_saved(self._source, pack_hook, unpack_hook)


class _Parameters(NamedTuple):
    tensors: list[str]
    attributes: list[str]
    results: list[str]


def _parameters(schema: str) -> _Parameters:
    """The names in ``add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor``."""
    import re

    arguments, _, returned = schema.partition("(")[2].rpartition(" -> ")
    found = _Parameters([], [], re.findall(r"Tensor (\w+)", returned))
    for kind, name in re.findall(r"([\w|?\[\]]+) (\w+)(?:=[^,]*)?(?:,|\)|$)", arguments):
        (found.tensors if kind.startswith("Tensor") else found.attributes).append(name)
    return found


def _source_of(node: Any, name: str) -> int | None:
    """Where ``_saved_<name>`` comes from, if the node has such a value."""
    parameters = _parameters(node.schema)
    if name in parameters.tensors:
        source = parameters.tensors.index(name)
    elif name in parameters.results:
        source = _FIRST_RESULT + parameters.results.index(name)
    elif name == "result" or (name.startswith("result") and name[len("result") :].isdigit()):
        source = _FIRST_RESULT + int(name.removeprefix("result") or 0)
    else:
        return None
    return source if source in node._saved_sources else None


def _attribute_values(text: str) -> list[Any]:
    """The fields of an operation, from their text; what is no literal of Python's stays text."""
    import ast

    parts: list[str] = [""]
    depth = 0
    for letter in text:
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    values = []
    for part in (part.strip() for part in parts):
        try:
            value = ast.literal_eval(part)
        except (ValueError, SyntaxError):
            value = float(part) if part in ("inf", "-inf", "nan") else part
        values.append(tuple(value) if isinstance(value, list) else value)
    return values


def _saved(node: Any, name: str) -> Any:
    source = _source_of(node, name)
    if source is not None:
        return node._saved_value(source)
    attributes = _parameters(node.schema).attributes
    if name in attributes:
        values = _attribute_values(node.attributes)
        if len(values) == len(attributes):
            return values[attributes.index(name)]
    raise AttributeError(f"'{node.name()}' object has no attribute '_saved_{name}'")


def _get_attribute(self: Any, name: str) -> Any:
    """What depends on the operation: saved values; attributes of a custom function's context."""
    context = self._context
    if context is not None:
        return _of_context(self, context, name)
    if name.startswith("_saved_"):
        return _saved(self, name.removeprefix("_saved_"))
    if name.startswith("_raw_saved_"):
        source = _source_of(self, name.removeprefix("_raw_saved_"))
        if source is not None:
            return SavedTensor(self, source)
    raise AttributeError(f"'{self.name()}' object has no attribute '{name}'")


def _of_context(node: Any, context: Any, name: str) -> Any:
    context._node, before = node, context._node  # saved results get their history from it
    try:
        return getattr(context, name)
    finally:
        context._node = before


def _input_metadata(self: Any) -> tuple[InputMetadata, ...]:
    return tuple(InputMetadata(*meta) for meta in self.results)


def install() -> None:
    """Puts the methods on Node."""
    node: Any = _core.Node
    node.register_hook = register_hook
    node.register_prehook = register_prehook
    node.__getattr__ = _get_attribute
    node._input_metadata = property(_input_metadata)

"""Reading recorded nodes: the walk over them, and what one node tells of itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from weft.autograd import _nodes

Node = Any  # of weft.autograd.graph.Node; its attributes depend on the operation
LEAF = "AccumulateGrad"


def recorded_nodes(roots: Iterable[Node]) -> list[Node]:
    """Every node that the roots were computed from, in the order of recording.

    A leaf stands right before the first node that uses it.
    """
    found: dict[Node, None] = dict.fromkeys(root for root in roots if root is not None)
    waiting = list(found)
    while waiting:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in found:
                found[node] = None
                waiting.append(node)
    ordered: dict[Node, None] = {}
    operations = (node for node in found if not is_leaf(node))
    for node in sorted(operations, key=lambda node: node._sequence):
        for producer, _ in node.next_functions:
            if producer is not None and is_leaf(producer):
                ordered.setdefault(producer)
        ordered.setdefault(node)
    for node in found:  # a root that is a leaf
        ordered.setdefault(node)
    return list(ordered)


def is_leaf(node: Node) -> bool:
    return bool(node.name() == LEAF)


@cache
def _function_name(node_name: str) -> str:
    """``max_pool2d_with_indices`` for ``MaxPool2DWithIndicesBackward0``."""
    name = re.sub(r"(\d)D", r"\1d", re.sub(r"Backward\d*$", "", node_name))
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def shown_name(node: Node) -> str:
    """``mul`` for ``MulBackward0``: the name that people know, which is PyTorch's."""
    if node._context is not None:
        return str(node.name()).removesuffix("Backward")
    return "leaf" if is_leaf(node) else _function_name(node.name())


def operation(node: Node) -> str:
    """The operation that was recorded, by the name its schema declares: for rules, not for eyes."""
    if node._context is not None:
        return str(node.name()).removesuffix("Backward")
    name = str(node.schema).partition("(")[0].partition(".")[0]
    return "leaf" if name == LEAF else name.removeprefix("_")


def argument_names(node: Node) -> tuple[str, ...]:
    """The names of the tensors among the operation's arguments, as its schema declares them."""
    return _signature(node.schema)[0]


def settings(node: Node) -> str:
    """The arguments that are no tensors: ``dim=1, keepdim=True``; empty for none."""
    names = _signature(node.schema)[1]
    if is_leaf(node) or not names or not node.attributes:
        return ""
    values = _split(node.attributes)
    if len(values) != len(names):
        return str(node.attributes)
    return ", ".join(
        f"{name}={value}"
        for name, value in zip(names, values, strict=True)
        if value not in ("None", "False")
    )


_signatures: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}


def _signature(schema: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if schema not in _signatures:
        parameters = _nodes._parameters(schema)
        _signatures[schema] = tuple(parameters.tensors), tuple(parameters.attributes)
    return _signatures[schema]


def _split(text: str) -> list[str]:
    """The parts between commas that stand in no bracket."""
    parts = [""]
    depth = 0
    for letter in text:
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


class Saved(NamedTuple):
    """A value that a node keeps for backward."""

    name: str
    bytes: int
    address: int  # the same for values that share memory
    source: int = 0
    tensor: Any = None  # of a custom function

    def read(self, node: Node) -> Any:
        """The value; raises RuntimeError if it was written to since."""
        return node._saved_value(self.source) if self.tensor is None else self.tensor


def saved(node: Node) -> list[Saved]:
    """What the node keeps now: nothing once a backward pass has freed it."""
    if node._context is not None:
        return [
            Saved(f"saved_tensors[{k}]", t.numel() * t.element_size(), t.data_ptr(), tensor=t)
            for k, t in enumerate(_saved_by_function(node) or ())
            if t is not None
        ]
    names = argument_names(node)
    return [
        Saved(_source_name(source, names), place[0], place[1], source)
        for source, place in zip(node._saved_sources, node._saved_places, strict=True)
        if place is not None
    ]


def was_freed(node: Node) -> bool:
    """Whether a backward pass has freed what the node had kept."""
    if node._context is not None:
        return _saved_by_function(node) is None
    return bool(node._released) and None in node._saved_places


def _saved_by_function(node: Node) -> tuple[Any, ...] | None:
    """What a custom function has saved; None once that has been freed."""
    try:
        return tuple(node.saved_tensors)
    except RuntimeError:
        return None


def _source_name(source: int, names: Sequence[str]) -> str:
    if source >= _nodes._FIRST_RESULT:
        number = source - _nodes._FIRST_RESULT
        return f"result {number}" if number else "result"
    return names[source] if source < len(names) else f"argument {source}"


def distinct_bytes(values: Iterable[Saved]) -> int:
    """Their bytes; values that share memory count once."""
    places: dict[int, int] = {}
    for value in values:
        places[value.address] = max(places.get(value.address, 0), value.bytes)
    return sum(places.values())


def kept_bytes(node: Node) -> int:
    """Bytes that this node keeps for backward."""
    return distinct_bytes(saved(node))


def total_kept_bytes(nodes: Iterable[Node]) -> int:
    """Bytes that all of them keep for backward together."""
    return distinct_bytes(value for node in nodes for value in saved(node))

"""All that is known of a graph as one JSON document: what the page shows.

outputs         name -> [node, number of the result]
files           [{name, lines: {number: text}}]: the source around every line that recorded
groups          the tree of weft/graph/_groups.py; a member is a node's number or a group
operations      what all nodes of one operation have in common
nodes           in the order of recording, each with the number of its operation; fields that have
                nothing to say are left out
backward_order  nodes' numbers
difference      of Difference.html only: {before, changes: [{kind, node, what, where,
                only_gradient}]}
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from weft._core import Tensor
from weft.graph._formulas import family, formula
from weft.graph._groups import Group
from weft.graph._nodes import (
    Saved,
    argument_names,
    distinct_bytes,
    is_leaf,
    operation,
    saved,
    settings,
    shown_name,
    was_freed,
)
from weft.graph._sources import snippets
from weft.graph._values import FULL_LIMIT, Value, dtype_text, look

if TYPE_CHECKING:
    from weft.graph._diff import Difference
    from weft.graph._graph import Graph

Node = Any
Json = dict[str, Any]
VERSION = 1
# A graph of more nodes than this shows fewer tensors in full: the page has to be read, too.
_FULL_NODES = 3000


def json_text(graph: Graph, difference: Difference | None = None) -> str:
    found = document(graph)
    if difference is not None:
        found["difference"] = _difference(difference)
    return json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def document(graph: Graph) -> Json:
    sites = [node.site for node in graph.nodes]
    sources = snippets((site[0], site[1]) for site in sites if site)
    files = {name: number for number, name in enumerate(dict.fromkeys(s[0] for s in sites if s))}
    writer = _Nodes(graph, files)
    nodes = [writer.node(node) for node in graph.nodes]
    return {
        "format": "weft-graph",
        "version": VERSION,
        "title": graph.title,
        "observed": graph.was_observed,
        "backward_error": graph.backward_error,
        "kept": graph.kept_bytes,
        "outputs": {
            name or "output": [graph.positions[node], number]
            for name, (node, number) in graph.outputs.items()
        },
        "files": [{"name": name, "lines": sources.get(name, {})} for name in files],
        "groups": _group(graph.groups),
        "nodes": nodes,
        "operations": writer.operations,
        "backward_order": graph.backward_order(),
    }


def _difference(difference: Difference) -> Json:
    positions = difference.after.positions
    changes = []
    for change in difference.changes:
        fields = _stated(kind=change.kind, what=list(change.what), where=change.where)
        fields["only_gradient"] = change.only_gradient
        if change.after is not None:
            fields["node"] = positions[change.after]
        changes.append(fields)
    return {"before": difference.before.title, "changes": changes}


def _group(group: Group) -> Json:
    def members(items: list[int | Group]) -> list[Any]:
        return [item if isinstance(item, int) else _group(item) for item in items]

    return _stated(
        kind=group.kind,
        name=group.name,
        label=group.label,
        leaves=members(group.leaves),
        members=members(group.members),
    )


class _Nodes:
    def __init__(self, graph: Graph, files: dict[str, int]) -> None:
        self._graph = graph
        self._files = files
        self._limit = _full_limit(graph)
        self.operations: list[Json] = []
        self._operation_numbers: dict[Any, int] = {}
        # Results that some node keeps for backward, by (producer, number).
        self._kept_results: dict[tuple[Node, int], Json] = {}
        self._saved: dict[Node, list[Json]] = {}
        self._kept: dict[Node, int] = {}
        for node in graph.nodes:
            values = saved(node)
            self._kept[node] = distinct_bytes(values)
            self._saved[node] = [self._saved_value(node, value) for value in values]

    def node(self, node: Node) -> Json:
        graph = self._graph
        leaf = is_leaf(node)
        seen = graph.seen(node)
        inputs = [
            None if producer is None else [graph.positions[producer], number]
            for producer, number in node.next_functions
        ]
        results = self._values(seen.results)
        if not results:
            kept = [self._kept_results.get((node, k)) for k in range(len(node.results))]
            results = kept if any(kept) else []
        return _stated(
            op=self._operation(node, len(inputs)),
            leaf=graph.short_name(node) if leaf else "",
            path=graph.leaf_name(node) if leaf else "",
            parameter=graph.is_parameter(node),
            module=graph.module_path(node),
            inputs=inputs,
            shapes=[list(shape) for shape, _ in node.results],
            dtypes=[dtype_text(dtype) for _, dtype in node.results],
            kept=self._kept[node],
            saved=self._saved[node],
            freed=was_freed(node),
            place=self._place(node),
            constants={
                number: self._stated_value(value, with_shape=True)
                for number, edge in enumerate(inputs)
                if edge is None and (value := graph.constant(node, number)) is not None
            },
            values=results,
            gradients=self._values(seen.gradients),
            passed_on=self._values(seen.argument_gradients),
            forward_us=_microseconds(seen.forward_seconds),
            backward_us=_microseconds(seen.backward_seconds),
        )

    def _operation(self, node: Node, inputs: int) -> int:
        fields = settings(node)
        key = (node.name(), node.schema, fields, inputs)
        if key not in self._operation_numbers:
            self._operation_numbers[key] = len(self.operations)
            name = operation(node)
            arguments = self._arguments(node, inputs)
            self.operations.append(
                _stated(
                    operation=shown_name(node),
                    grad_fn=node.name(),
                    family=family(name),
                    settings=fields,
                    arguments=arguments,
                    formulas=[formula(name, _declared(a), fields) for a in arguments],
                )
            )
        return self._operation_numbers[key]

    def _place(self, node: Node) -> list[Any] | None:
        site = node.site
        return [self._files[site[0]], site[1], site[2]] if site else None

    def _arguments(self, node: Node, count: int) -> list[str]:
        """A name for each input: ``self``, ``other``; ``tensors[1]`` where a list is passed."""
        if is_leaf(node):
            return []
        names = argument_names(node)
        if len(names) == 1 and count > 1:
            return [f"{names[0]}[{k}]" for k in range(count)]
        return [names[k] if k < len(names) else f"argument {k}" for k in range(count)]

    def _saved_value(self, node: Node, value: Saved) -> Json:
        entry: Json = {"name": value.name, "bytes": value.bytes}
        return entry if self._graph.was_observed else entry | self._look_at_saved(node, value)

    def _values(self, values: list[Value | None]) -> list[Json | None]:
        found = [None if value is None else self._stated_value(value) for value in values]
        return found if any(found) else []

    def _stated_value(self, value: Value, *, with_shape: bool = False) -> Json:
        found: Json = {}
        count = value.statistics["count"]
        if value.elements is not None and count <= self._limit:
            found["elements"] = _plain(value.elements)
        if count != 1:
            found["statistics"] = {name: _plain(n, 5) for name, n in value.statistics.items()}
        if with_shape and value.shape:
            found |= {"shape": list(value.shape), "dtype": value.dtype}
        return found

    def _look_at_saved(self, node: Node, saved_value: Saved) -> Json:
        try:
            kept = saved_value.read(node)
        except RuntimeError as error:  # written to since
            return {"error": str(error)}
        if not isinstance(kept, Tensor):
            return {"value": {"elements": _plain(kept)}}
        value = look(kept)
        edges = node.next_functions
        source = saved_value.source
        if saved_value.tensor is not None:
            pass  # a custom function tells no one which of its arguments that is
        elif saved_value.name == "result":
            self._kept_results[node, 0] = self._stated_value(value)
        elif source < len(edges) and edges[source][0] is not None:
            self._kept_results.setdefault(edges[source], self._stated_value(value))
        return {"value": self._stated_value(value, with_shape=True)}


def _microseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e6, 1)


def _full_limit(graph: Graph) -> int:
    """Up to how many elements a tensor is written in full: fewer in a large graph."""
    return FULL_LIMIT if len(graph) <= _FULL_NODES else FULL_LIMIT // 16


def _declared(argument: str) -> str:
    return argument.partition("[")[0]


def _stated(**fields: Any) -> Json:
    """The fields that say something."""
    return {
        name: value
        for name, value in fields.items()
        if value or (name == "op" and value is not None)
    }


def _plain(value: Any, digits: int = 0) -> Any:
    """Numbers that JSON can hold; ``"nan"``, ``"inf"`` and ``"-inf"`` for the others."""
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return str(value)
    return float(f"{value:.{digits}g}") if digits else value

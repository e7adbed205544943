"""A graph in Graphviz's language."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from weft.graph._formulas import family
from weft.graph._groups import Group, title
from weft.graph._nodes import is_leaf, operation, shown_name
from weft.graph._sources import short_place
from weft.graph._values import dtype_text, number_text, shape_text

if TYPE_CHECKING:
    from weft.graph._graph import Graph

# Light fills on which black text reads well, by family of operations.
_COLOURS = {
    "leaf": "#e8edf2",
    "product": "#cfe0fb",
    "activation": "#ffe2c2",
    "normalisation": "#fdeeb8",
    "reduction": "#e4d7f7",
    "loss": "#fbd3d3",
    "shape": "#e9e9e4",
    "elementwise": "#d3eedb",
}


def dot(graph: Graph) -> str:
    """Every node; clusters for modules and repeats, none for what only makes pictures readable."""
    lines = [
        "digraph weft {",
        '  node [shape=box style="rounded,filled" fontname="Helvetica" fontsize=10];',
        "  edge [color=gray40 arrowsize=0.6];",
        *_group(graph, graph.groups, "  "),
    ]
    for position, node in enumerate(graph.nodes):
        lines += [
            f"  n{graph.positions[producer]} -> n{position};"
            for producer, _ in node.next_functions
            if producer is not None
        ]
    return "\n".join([*lines, "}"]) + "\n"


def _group(graph: Graph, group: Group, indent: str) -> Iterator[str]:
    for item in (*group.leaves, *group.members):
        if isinstance(item, int):
            yield f"{indent}{_node(graph, item)}"
        elif item.kind in ("run", "leaves"):
            yield from _group(graph, item, indent)
        else:
            yield f"{indent}subgraph cluster_{id(item)} {{"
            yield f"{indent}  label={_quoted(title(item))}; color=gray70; fontname=Helvetica;"
            yield from _group(graph, item, indent + "  ")
            yield f"{indent}}}"


def _node(graph: Graph, position: int) -> str:
    node = graph.nodes[position]
    shape, dtype = node.results[0]
    name = graph.short_name(node) if is_leaf(node) else shown_name(node)
    norm = graph.gradient_norm(node)
    lines = [name, f"{shape_text(shape)} {dtype_text(dtype)}"]
    lines += [f"|grad| {number_text(norm)}"] if norm is not None else []
    lines += [short_place(node.site)] if node.site else []
    colour = _COLOURS[family(operation(node))]
    return f'n{position} [label={_quoted(chr(10).join(lines))} fillcolor="{colour}"];'


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'

"""A graph as indented text of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from weft.graph._groups import Group, title
from weft.graph._nodes import is_leaf, kept_bytes, settings, shown_name
from weft.graph._sources import short_place
from weft.graph._values import bytes_text, dtype_text, number_text, shape_text

if TYPE_CHECKING:
    from weft.graph._graph import Graph

_WIDTH = 80
_INDENT = "  "
# Widths of the columns after the operation; the norm's only where gradients are known.
_RESULT, _KEPT, _NORM, _PLACE = 23, 9, 9, 14


def text(graph: Graph, lines: int | None) -> str:
    """At most ``lines`` lines below the heading; None for every node, repeats unfolded."""
    writer = _Writer(graph, unfold=lines is None)
    body: list[str] = []
    for line in writer.group(graph.groups, ""):
        if lines is not None and len(body) == lines:
            body.append(f"... cut after {lines} lines; print(g.text(lines=None)) shows all")
            break
        body.append(line)
    return "\n".join([*writer.heading(), *body])


class _Writer:
    def __init__(self, graph: Graph, *, unfold: bool) -> None:
        self._graph = graph
        self._unfold = unfold
        self._has_norms = any(graph.gradient_norm(node) is not None for node in graph.nodes)
        self._first = _WIDTH - _RESULT - _KEPT - _PLACE - (_NORM if self._has_norms else 0)
        self._outputs = {node: name for name, (node, _) in graph.outputs.items() if name}

    def heading(self) -> Iterator[str]:
        graph = self._graph
        leaves = sum(map(is_leaf, graph.nodes))
        yield from wrap(
            f"{graph.title}: {_count(len(graph) - leaves, 'operation')}, "
            f"{_count(leaves, 'leaf', 'leaves')}, "
            f"{bytes_text(graph.kept_bytes)} kept for backward",
            _WIDTH,
        )
        if graph.backward_error:
            yield from wrap(f"gradients are not known: {graph.backward_error}", _WIDTH)
        elif not self._has_norms:
            yield "values and gradients: weft.graph(function, *args) watches a call"
        yield ""
        yield self._row("operation", "result", "kept", "|grad|", "line")
        yield self._row("-" * 9, "-" * 6, "-" * 4, "-" * 6, "-" * 4)

    def group(self, group: Group, indent: str) -> Iterator[str]:
        for item in (*group.leaves, *group.members):
            if isinstance(item, int):
                yield self._node(item, indent)
            elif item.kind == "repeat" and not self._unfold:
                yield from self._repeat(item, indent)
            elif item.kind in ("run", "leaves"):  # made for the picture only
                yield from self.group(item, indent)
            else:
                yield _cut(indent + title(item), _WIDTH)
                yield from self.group(item, indent + _INDENT)

    def _repeat(self, repeat: Group, indent: str) -> Iterator[str]:
        """The first round, which stands for all."""
        yield _cut(f"{indent}{title(repeat)}, the first:", _WIDTH)
        first: Any = repeat.members[0]
        while isinstance(first, Group) and first.kind == "run":
            first = first.members[0]
        if isinstance(first, int):
            yield self._node(first, indent + _INDENT)
        elif first.kind == "step":
            yield from self.group(first, indent + _INDENT)
        else:
            yield _cut(indent + _INDENT + title(first), _WIDTH)
            yield from self.group(first, indent + _INDENT * 2)

    def _node(self, position: int, indent: str) -> str:
        graph = self._graph
        node = graph.nodes[position]
        shape, dtype = node.results[0]
        result = f"{shape_text(shape)} {dtype_text(dtype)}"
        if len(node.results) > 1:
            result = f"{len(node.results)} x {result}"
        norm = graph.gradient_norm(node)
        kept = 0 if is_leaf(node) else kept_bytes(node)
        return self._row(
            indent + (self._call(node) if is_leaf(node) else f"#{position + 1} {self._call(node)}"),
            result,
            bytes_text(kept) if kept else "",
            "" if norm is None else number_text(norm),
            short_place(node.site),
        )

    def _call(self, node: Any) -> str:
        if is_leaf(node):
            return self._graph.short_name(node)
        arguments = [
            self._constant(node, number) if producer is None else self._argument(producer, output)
            for number, (producer, output) in enumerate(node.next_functions)
        ]
        arguments += filter(None, [settings(node)])
        call = f"{shown_name(node)}({', '.join(arguments)})"
        name = self._outputs.get(node)
        return f"{call} -> {name}" if name else call

    def _constant(self, node: Any, number: int) -> str:
        """A number in full; a dot for a tensor, or for what was not watched."""
        value = self._graph.constant(node, number)
        known = value is not None and value.shape == () and value.elements is not None
        return number_text(value.elements) if value is not None and known else "·"

    def _argument(self, producer: Any, output_nr: int) -> str:
        if is_leaf(producer):
            return self._graph.short_name(producer)
        number = f"#{self._graph.positions[producer] + 1}"
        return number if len(producer.results) == 1 else f"{number}.{output_nr}"

    def _row(self, first: str, result: str, kept: str, norm: str, place: str) -> str:
        cells = [
            _cut(first, self._first - 1).ljust(self._first),
            _cut(result, _RESULT - 1).ljust(_RESULT),
            kept.rjust(_KEPT - 1) + " ",
        ]
        if self._has_norms:
            cells.append(norm.rjust(_NORM - 1) + " ")
        # Of a long file name the end tells more, and the line stands there.
        cells.append(place if len(place) <= _PLACE else "…" + place[-_PLACE + 1 :])
        return "".join(cells).rstrip()


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"

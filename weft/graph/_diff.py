"""The difference of two graphs: which nodes are new, gone, or changed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.graph._nodes import is_leaf, settings, shown_name
from weft.graph._sources import short_place
from weft.graph._values import Value, dtype_text, number_text, shape_text

if TYPE_CHECKING:
    from weft.graph._graph import Graph

Node = Any
# What is left after the common start and end is aligned exactly up to this many nodes; beyond
# that, nodes with the same name are paired in the order in which they come.
_ALIGNED_EXACTLY = 3000
_SHOWN = 200  # changes that are printed


class Change(NamedTuple):
    """One node of one or of both graphs, and what differs."""

    kind: str  # "new", "gone" or "changed"
    before: Node | None
    after: Node | None
    what: tuple[str, ...]  # "shape [2, 3] -> [2, 4]", ...
    where: str  # module path, operation and line

    @property
    def only_gradient(self) -> bool:
        """Whether nothing but the gradient differs: then the cause stands further on."""
        return self.kind == "changed" and all(text.startswith("gradient") for text in self.what)

    def __str__(self) -> str:
        mark = {"new": "+", "gone": "-", "changed": "~"}[self.kind]
        return f"{mark} {self.where}" + "".join(f"\n    {text}" for text in self.what)


class Difference:
    """What `Graph.diff` found, in the order of recording. True if there is a difference."""

    def __init__(self, before: Graph, after: Graph, changes: list[Change], compared: int) -> None:
        self.before = before
        self.after = after
        self.changes = changes
        self._compared = compared

    def _of_kind(self, kind: str) -> list[Change]:
        return [change for change in self.changes if change.kind == kind]

    @property
    def new(self) -> list[Change]:
        return self._of_kind("new")

    @property
    def gone(self) -> list[Change]:
        return self._of_kind("gone")

    @property
    def changed(self) -> list[Change]:
        return self._of_kind("changed")

    @property
    def first(self) -> Change | None:
        """The first operation recorded otherwise, or with another value: where to look first."""
        return next((change for change in self.changes if not change.only_gradient), None)

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        if not self.changes:
            return f"no difference in {self._compared} nodes"
        counts = f"{len(self.new)} new, {len(self.gone)} gone, {len(self.changed)} changed"
        lines = [f"{counts}; {self._compared} nodes in both"]
        if self.first is not None:
            lines.append(f"the first that is not a gradient: {self.first}")
        lines += map(str, self.changes[:_SHOWN])
        if len(self.changes) > _SHOWN:
            lines.append(f"... and {len(self.changes) - _SHOWN} more, in `changes`")
        return "\n".join(lines)

    __repr__ = __str__

    def html(self, path: str | Path) -> Path:
        """Writes the page of the second graph, in which the differences are marked and listed."""
        from weft.graph._page import page

        path = Path(path)
        path.write_text(page(self.after, self), encoding="utf-8")
        return path


def difference(before: Graph, after: Graph, rtol: float) -> Difference:
    changes = []
    compared = 0
    for i, j in _pairs(_keys(before), _keys(after)):
        old = before.nodes[i] if i is not None else None
        new = after.nodes[j] if j is not None else None
        if old is None:
            changes.append(Change("new", None, new, (), _where(after, new)))
        elif new is None:
            changes.append(Change("gone", old, None, (), _where(before, old)))
        else:
            compared += 1
            what = tuple(_differences(before, old, after, new, rtol))
            if what:
                changes.append(Change("changed", old, new, what, _where(after, new)))
    return Difference(before, after, changes, compared)


def _keys(graph: Graph) -> list[tuple[str, str]]:
    """What makes two nodes the same: the module and the operation (a leaf's name)."""
    return [
        (graph.module_path(node), graph.leaf_name(node) if is_leaf(node) else shown_name(node))
        for node in graph.nodes
    ]


def _pairs(old: list[Any], new: list[Any]) -> Iterator[tuple[int | None, int | None]]:
    """Positions that belong together; None on one side for what the other side lacks."""
    shortest = min(len(old), len(new))
    start = next((i for i in range(shortest) if old[i] != new[i]), shortest)
    end = next((i for i in range(shortest - start) if old[-1 - i] != new[-1 - i]), shortest - start)
    for i in range(start):
        yield i, i
    middle_old, middle_new = old[start : len(old) - end], new[start : len(new) - end]
    align = _align if len(middle_old) + len(middle_new) <= _ALIGNED_EXACTLY else _in_order
    for before, after in align(middle_old, middle_new):
        yield (
            None if before is None else start + before,
            None if after is None else start + after,
        )
    for i in range(end):
        yield len(old) - end + i, len(new) - end + i


def _align(old: list[Any], new: list[Any]) -> Iterator[tuple[int | None, int | None]]:
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            yield from zip(range(i1, i2), range(j1, j2), strict=True)
        else:
            yield from ((i, None) for i in range(i1, i2))
            yield from ((None, j) for j in range(j1, j2))


def _in_order(old: list[Any], new: list[Any]) -> Iterator[tuple[int | None, int | None]]:
    waiting: dict[Any, list[int]] = {}
    for i in reversed(range(len(old))):
        waiting.setdefault(old[i], []).append(i)
    for j, key in enumerate(new):
        same = waiting.get(key)
        yield (same.pop() if same else None), j
    for i in sorted(i for rest in waiting.values() for i in rest):
        yield i, None


def _where(graph: Graph, node: Node) -> str:
    name = f"leaf {graph.leaf_name(node)}" if is_leaf(node) else shown_name(node)
    path = graph.module_path(node)
    number = graph.positions[node] + 1
    parts = [f"#{number} {path + ': ' if path else ''}{name}"]
    parts += [f"at {short_place(node.site)}"] if node.site else []
    return " ".join(parts)


def _differences(before: Graph, old: Node, after: Graph, new: Node, rtol: float) -> Iterator[str]:
    if old.results != new.results:
        yield f"{_results_text(old)} -> {_results_text(new)}"
    if settings(old) != settings(new):
        yield f"({settings(old)}) -> ({settings(new)})"
    producers = [_inputs(before, old), _inputs(after, new)]
    if producers[0] != producers[1]:
        yield f"inputs ({', '.join(producers[0])}) -> ({', '.join(producers[1])})"
    seen_old, seen_new = before.seen(old), after.seen(new)
    for title, values in (
        ("value", (seen_old.results, seen_new.results)),
        ("gradient", (seen_old.gradients, seen_new.gradients)),
    ):
        a, b = (next((v for v in side if v is not None), None) for side in values)
        if a is not None and b is not None and not _close(a, b, rtol):
            yield f"{title}'s norm {number_text(a.norm)} -> {number_text(b.norm)}"


def _inputs(graph: Graph, node: Node) -> list[str]:
    """The operations that made a node's inputs: enough to see that it was connected otherwise."""
    return [
        "·" if producer is None
        else graph.leaf_name(producer) if is_leaf(producer)
        else shown_name(producer)
        for producer, _ in node.next_functions
    ]  # fmt: skip


def _results_text(node: Node) -> str:
    return " ".join(f"{shape_text(shape)} {dtype_text(dtype)}" for shape, dtype in node.results)


def _close(a: Value, b: Value, rtol: float) -> bool:
    """Whether the norms agree, and the elements where both were seen in full."""
    if not _near(a.norm, b.norm, rtol):
        return False
    scale = max(abs(a.norm), abs(b.norm))
    return all(
        _near(a.statistics.get(name, 0.0), b.statistics.get(name, 0.0), rtol, scale)
        for name in ("min", "max", "mean")
    )


def _near(a: float, b: float, rtol: float, scale: float = 0.0) -> bool:
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or math.isinf(b):
        return a == b or (math.isnan(a) and math.isnan(b))
    return abs(a - b) <= rtol * max(abs(a), abs(b), scale)

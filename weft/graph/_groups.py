"""Folding a recording into groups: modules, repeated steps, and runs of what is left.

Note [Groups are intervals]
Ten thousand nodes cannot be read, and no layout of them helps. So the views show a tree of groups.
Every group holds nodes that were recorded one right after the other; leaves, which have no inputs,
stand apart from that order. An interval of the recording can only use what came before it, so
however the tree is opened, what is seen has no cycles, and each group can be laid out by itself.

    module   the nodes recorded in one call of a module (or in calls with nothing in between)
    repeat   the same sequence of operations, from the same lines with the same shapes, three times
             or more: the steps of a loop, the blocks of a stack
    step     one round of a repeat
    run      neighbours, where a group would otherwise have more than FAN_OUT members
    leaves   parameters and inputs, where a group uses many
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from weft.graph._names import LeafNames, ModulePaths, scope_of
from weft.graph._nodes import is_leaf, shown_name
from weft.graph._sources import short_place

Node = Any

# The most members that a group shows at once.
FAN_OUT = 40
_MANY_LEAVES = 12
# What is worth folding: so many rounds, of so many nodes together, each of so many members at most.
_LEAST_ROUNDS = 3
_LEAST_NODES = 16
_LONGEST_ROUND = 128


class Group:
    """Some nodes of a graph, by their position in the recording, and the groups among them."""

    def __init__(self, kind: str, name: str, label: str = "") -> None:
        self.kind = kind
        self.name = name
        self.label = label  # of a module: its type
        self.leaves: list[int | Group] = []
        self.members: list[int | Group] = []

    def nodes(self) -> Iterator[int]:
        """The positions of all nodes inside, leaves first."""
        waiting: list[int | Group] = [*reversed(self.members), *reversed(self.leaves)]
        while waiting:
            item = waiting.pop()
            if isinstance(item, int):
                yield item
            else:
                waiting += [*reversed(item.members), *reversed(item.leaves)]

    def groups(self) -> Iterator[Group]:
        """The groups right inside."""
        return (item for item in (*self.leaves, *self.members) if isinstance(item, Group))


def title(group: Group) -> str:
    """``layers.0: Linear``."""
    return f"{group.name}: {group.label}" if group.label else group.name


def group_nodes(nodes: Sequence[Node], leaf_names: LeafNames, paths: ModulePaths) -> Group:
    """The tree of groups of a recording."""
    root = _modules(nodes, leaf_names, paths)
    if not root.leaves and len(root.members) == 1 and isinstance(root.members[0], Group):
        root = root.members[0]  # all of it is one module
    _Folding(nodes).fold(root)
    return root


def _modules(nodes: Sequence[Node], leaf_names: LeafNames, paths: ModulePaths) -> Group:
    """One group per module call, nested as the calls were."""
    root = Group("graph", "")
    open_groups: list[tuple[Any, Group]] = []  # the modules around the last node
    used_leaves: list[int] = []  # by the operation that comes next
    for position, node in enumerate(nodes):
        if is_leaf(node):
            used_leaves.append(position)
            continue
        scope = scope_of(node)
        shared = 0
        for (module, _), here in zip(open_groups, scope, strict=False):
            if module is not here:
                break
            shared += 1
        del open_groups[shared:]
        for depth in range(shared, len(scope)):
            module = scope[depth]
            name, label = paths.step(scope, depth), type(module).__name__
            group = Group("module", name, label if label != name else "")
            around = open_groups[-1][1] if open_groups else root
            around.members.append(group)
            open_groups.append((module, group))
        inner = open_groups[-1][1] if open_groups else root
        inner.members.append(position)
        for leaf in used_leaves:
            owner = leaf_names.owner(nodes[leaf].variable)
            home = next((group for module, group in open_groups if module is owner), None)
            (home or (root if owner is None else inner)).leaves.append(leaf)
        used_leaves.clear()
    root.leaves += used_leaves  # a graph that is nothing but a leaf
    return root


class _Folding:
    """Folds repeats and long runs, from the inside out."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._numbers: dict[Any, int] = {}
        self._sizes: dict[int, int] = {}  # nodes in a group, by id()

    def fold(self, group: Group) -> int:
        """Returns a number that equal groups share."""
        signatures = [self._signature(item) for item in group.members]
        content = self._number(
            (group.kind, group.label, tuple(map(self._signature, group.leaves)), tuple(signatures))
        )
        self._sizes[id(group)] = sum(map(self._size, group.members)) + len(group.leaves)
        group.members = self._fold_repeats(group.members, signatures)
        group.members = _in_runs(group.members, "run")
        if len(group.leaves) > _MANY_LEAVES:
            leaves = Group("leaves", f"{len(group.leaves)} parameters and inputs")
            leaves.members = _in_runs(group.leaves, "leaves")
            group.leaves = [leaves]
        return content

    def _number(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _size(self, item: int | Group) -> int:
        return 1 if isinstance(item, int) else self._sizes[id(item)]

    def _signature(self, item: int | Group) -> int:
        if isinstance(item, Group):
            return self.fold(item)
        node = self._nodes[item]
        return self._number((node.name(), node.site, node.results))

    def _fold_repeats(self, items: list[int | Group], signatures: list[int]) -> list[int | Group]:
        folded: list[int | Group] = []
        at = 0
        while at < len(items):
            length, rounds = self._repeat_at(items, signatures, at)
            if rounds == 0:
                folded.append(items[at])
                at += 1
                continue
            end = at + length * rounds
            folded.append(self._repeat(items[at:end], signatures[at:end], length))
            at = end
        return folded

    def _repeat_at(
        self, items: list[int | Group], signatures: list[int], at: int
    ) -> tuple[int, int]:
        """(members of one round, rounds) of the shortest repeat that starts here, or (0, 0)."""
        longest = min(_LONGEST_ROUND, (len(items) - at) // _LEAST_ROUNDS)
        first = signatures[at]
        for length in range(1, longest + 1):
            if signatures[at + length] != first:
                continue
            round_ = signatures[at : at + length]
            end = at + length
            while signatures[end : end + length] == round_:
                end += length
            rounds = (end - at) // length
            if rounds < _LEAST_ROUNDS:
                continue
            if sum(map(self._size, items[at:end])) >= _LEAST_NODES:
                return length, rounds
        return 0, 0

    def _repeat(self, items: list[int | Group], signatures: list[int], length: int) -> Group:
        rounds = len(items) // length
        first, last = items[0], items[-1]
        if length > 1:
            start = first if isinstance(first, int) else next(first.nodes())
            place = short_place(self._nodes[start].site)
            size = sum(map(self._size, items[:length]))
            name = f"loop at {place}" if place else "loop"
            repeat = Group("repeat", name, f"{rounds} × {size} operations")
            for number in range(rounds):
                step = Group("step", f"round {number}")
                inside = slice(number * length, (number + 1) * length)
                step.members = self._fold_repeats(items[inside], signatures[inside])
                step.members = _in_runs(step.members, "run")
                repeat.members.append(step)
        else:
            if isinstance(first, Group) and isinstance(last, Group):
                name = f"{first.name} … {last.name}"
                repeat = Group("repeat", name, f"{first.label} × {rounds}".strip())
            else:
                assert isinstance(first, int)
                repeat = Group("repeat", shown_name(self._nodes[first]), f"× {rounds}")
            repeat.members = items
        repeat.members = _in_runs(repeat.members, "run")
        return repeat


def _in_runs(items: list[int | Group], kind: str) -> list[int | Group]:
    """The same items, in nested groups of at most FAN_OUT."""
    level, width = items, 1
    while len(level) > FAN_OUT:
        width *= FAN_OUT
        chunks: list[int | Group] = []
        for first in range(0, len(level), FAN_OUT):
            last = min(first // FAN_OUT * width + width, len(items)) - 1
            run = Group(kind, f"{first // FAN_OUT * width + 1} to {last + 1} of {len(items)}")
            run.members = level[first : first + FAN_OUT]
            chunks.append(run)
        level = chunks
    return level

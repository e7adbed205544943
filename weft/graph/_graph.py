"""``weft.graph``: what stands behind a tensor, or what a call recorded."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft import _core
from weft._callers import calling_frame
from weft._core import Tensor
from weft.graph._groups import Group, group_nodes
from weft.graph._names import LeafNames, ModulePaths, scope_of
from weft.graph._nodes import is_leaf, recorded_nodes, total_kept_bytes
from weft.graph._observe import Observations, Seen, observe_call
from weft.graph._values import Value, look

if TYPE_CHECKING:
    from weft.graph._diff import Difference

Node = Any


def graph(target: Any, *args: Any, **kwargs: Any) -> Graph:
    """The graph behind a tensor, or the one that a call records.

    ``weft.graph(tensor)`` (or several, in a list or dict) looks at what has been recorded already:
    operations, shapes, bytes kept for backward, source lines, the values that nodes keep.

    ``weft.graph(model, *args, **kwargs)`` calls ``model`` (a module or any function) once and also
    notes the value of every result, then the gradients, by one backward pass from the sum of what
    it returns. No ``.grad`` changes; what the call itself does (draws random numbers, updates
    running statistics) happens once.

    >>> g = weft.graph(loss)
    >>> print(g)
    >>> weft.graph(model, batch).html("graph.html")
    """
    variables = _variables_of_caller()
    tensors = _tensors_in(target)
    if tensors:
        if args or kwargs:
            raise TypeError(
                "weft.graph(tensor) takes no further arguments; to look at several results, "
                "pass them in a list"
            )
        named = (name for name, value in variables.items() if value is target)
        return Graph(tensors, LeafNames(variables), title=next(named, ""))
    if not callable(target):
        raise TypeError(
            "weft.graph() expects a Tensor, a module or a function with its arguments, but got "
            f"{type(target).__name__}"
        )
    names = LeafNames(_named_arguments(target, args, kwargs), variables)
    returned, observations = observe_call(target, args, kwargs)
    results = [tensor for tensor in _tensors_in(returned).items() if tensor[1].requires_grad]
    if not results:
        raise RuntimeError(
            f"weft.graph({_name_of(target)}, ...): nothing was recorded, because no result "
            "requires grad. Call it with a tensor that does (x.requires_grad_()), and outside of "
            "weft.no_grad()."
        )
    found = Graph(dict(results), names, observations, _name_of(target))
    found.target = target
    observations.look_at_leaves(found.nodes)
    observations.differentiate(found.nodes, list(dict(results).values()))
    return found


class Graph:
    """A view of recorded nodes; see `weft.graph`.

    It holds the nodes themselves, and with them the values they keep for backward, as long as it
    lives.
    """

    def __init__(
        self,
        outputs: Mapping[str, Any],
        variables: LeafNames,
        observations: Observations | None = None,
        title: str = "",
    ) -> None:
        edges = {name: _edge_of(name, tensor) for name, tensor in outputs.items()}
        self.outputs: dict[str, tuple[Node, int]] = edges
        self.title = title or ", ".join(name for name in outputs if name) or "graph"
        self.target: Any = None  # what was called: nodes know the modules around them only weakly
        self._variables = variables
        self._paths = ModulePaths()
        self._observations = observations
        self._leaves_seen: dict[Node, Seen] = {}  # as they were when first looked at

    # ---- what there is ---------------------------------------------------------------------------

    @cached_property
    def nodes(self) -> list[Node]:
        """The recorded nodes, in the order of recording; a leaf comes before its first use."""
        return recorded_nodes(node for node, _ in self.outputs.values())

    @cached_property
    def positions(self) -> dict[Node, int]:
        """The place of each node in ``nodes``."""
        return {node: position for position, node in enumerate(self.nodes)}

    @cached_property
    def groups(self) -> Group:
        """The nodes folded into modules and repeated steps: a tree, see weft/graph/_groups.py."""
        return group_nodes(self.nodes, self._names, self._paths)

    @cached_property
    def _names(self) -> LeafNames:
        """Names of leaves, with those of all parameters of the modules that took part."""
        outermost = {id(scope[0]): scope[0] for scope in map(scope_of, self.nodes) if scope}
        self._variables.add_modules(outermost.values())
        return self._variables

    @property
    def kept_bytes(self) -> int:
        """Bytes that the nodes keep for backward now; memory that several share counts once."""
        return total_kept_bytes(self.nodes)

    @property
    def backward_error(self) -> str:
        """Why the gradients are not known, if a backward pass was tried and failed."""
        return self._observations.backward_error if self._observations else ""

    @property
    def was_observed(self) -> bool:
        """Whether values and gradients were watched: the graph was made from a call."""
        return self._observations is not None

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    # ---- what is known of a node -----------------------------------------------------------------

    def seen(self, node: Node) -> Seen:
        """Values and gradients of a node, as far as they are known."""
        if self._observations is not None:
            return self._observations.of(node) or Seen()
        if not is_leaf(node):
            return Seen()
        found = self._leaves_seen.get(node)
        if found is None:
            found = self._leaves_seen[node] = Seen()
            leaf = node.variable
            found.results = [look(leaf)]
            found.gradients = [] if leaf.grad is None else [look(leaf.grad)]
        return found

    def constant(self, node: Node, number: int) -> Value | None:
        """The value of an argument that needs no gradient, if it is known."""
        arguments = self.seen(node).arguments
        return arguments[number] if number < len(arguments) else None

    def gradient_norm(self, node: Node) -> float | None:
        """The norm of the gradient with respect to the node's result; None where not known."""
        return self.seen(node).gradient_norm

    def leaf_name(self, node: Node) -> str:
        """The name of a leaf: its parameter's path, or a variable that holds it."""
        leaf = node.variable
        return self._names.name(leaf) or ("parameter" if _is_parameter(leaf) else "leaf")

    def short_name(self, node: Node) -> str:
        """The name of a leaf as its own module calls it: ``weight``."""
        name = self.leaf_name(node)
        return name.rpartition(".")[2] if self._names.owner(node.variable) else name

    def is_parameter(self, node: Node) -> bool:
        return is_leaf(node) and _is_parameter(node.variable)

    def module_path(self, node: Node) -> str:
        """``MLP.layers.0``: the modules in whose calls the node was recorded."""
        scope = scope_of(node)
        return ".".join(self._paths.step(scope, depth) for depth in range(len(scope)))

    def backward_order(self) -> list[int]:
        """Positions of the nodes in the order in which a backward pass visits them.

        The order that was seen, or else the reverse of the recording, which is what backward does.
        """
        if self._observations is None or self._observations.backward_error:
            leaves_last = sorted(range(len(self.nodes)), key=lambda i: is_leaf(self.nodes[i]))
            operations = [i for i in reversed(leaves_last) if not is_leaf(self.nodes[i])]
            return operations + [i for i in leaves_last if is_leaf(self.nodes[i])]
        by_sequence = {node._sequence: position for position, node in enumerate(self.nodes)}
        return [by_sequence[s] for s in self._observations.backward_order if s in by_sequence]

    # ---- the views -------------------------------------------------------------------------------

    def __repr__(self) -> str:
        operations = sum(not is_leaf(node) for node in self.nodes)
        return f"<weft.Graph of {self.title}: {operations} operations>"

    def __str__(self) -> str:
        return self.text()

    def text(self, *, lines: int | None = 400) -> str:
        """The graph as indented text of 80 columns: modules are headings, each node is a line.

        ``lines``: the most lines to print; None prints every node and unfolds repeats.
        """
        from weft.graph._text import text

        return text(self, lines)

    def dot(self) -> str:
        """The graph in Graphviz's language; modules are clusters."""
        from weft.graph._dot import dot

        return dot(self)

    def json(self) -> str:
        """All that is known, as JSON: what the page shows, for other programs."""
        from weft.graph._document import json_text

        return json_text(self)

    def html(self, path: str | Path) -> Path:
        """Writes one self-contained interactive page, which opens offline, and returns its path."""
        from weft.graph._page import page

        path = Path(path)
        path.write_text(page(self), encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        from weft.graph._page import notebook_frame

        return notebook_frame(self)

    def diff(self, other: Graph, *, rtol: float = 1e-5) -> Difference:
        """What is new, gone or changed in ``other``: operations, shapes, values, gradient norms.

        Returns a `Difference`, which is true if there is one, and prints as text. Numbers differ if
        they are further apart than ``rtol`` times the larger.
        """
        from weft.graph._diff import difference

        return difference(self, other, rtol)


def _is_parameter(leaf: Any) -> bool:
    from weft.nn.parameter import Parameter

    return isinstance(leaf, Parameter)


def _edge_of(name: str, tensor: Any) -> tuple[Node, int]:
    if not tensor.requires_grad:
        cut = _core._cut_of(tensor)
        raise RuntimeError(
            f"weft.graph({name or 'tensor'}): this tensor has no recorded history: it does not "
            "require grad. "
            + (f"Its history was cut by {cut}." if cut else "Nothing it was computed from does.")
        )
    node, output_nr = _core._gradient_edge(tensor)
    return node, output_nr


def _tensors_in(value: Any, name: str = "") -> dict[str, Any]:
    """The tensors in nested lists, tuples and dicts, by where they stand: ``{"[0]": ...}``."""
    if isinstance(value, Tensor):
        return {name: value}
    found: dict[str, Any] = {}
    if isinstance(value, dict):
        for key, item in value.items():
            found |= _tensors_in(item, f"{name}[{key!r}]")
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            found |= _tensors_in(item, f"{name}[{i}]")
    return found


def _name_of(function: Any) -> str:
    name: str = getattr(function, "__name__", "")
    return name or type(function).__name__


def _named_arguments(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    try:
        bound = inspect.signature(getattr(function, "forward", function)).bind(*args, **kwargs)
    except (TypeError, ValueError):  # a builtin; or the call itself will say what is wrong
        return {f"argument {i}": value for i, value in enumerate(args)} | kwargs
    return dict(bound.arguments)


def _variables_of_caller() -> dict[str, Any]:
    """Tensors by the names they have where weft.graph was called."""
    frame = calling_frame()
    if frame is None:
        return {}
    scopes = {**frame.f_globals, **frame.f_locals}
    return {name: value for name, value in scopes.items() if not name.startswith("__")}

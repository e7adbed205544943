"""Values and gradients of a graph, watched while it is recorded and differentiated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from weft import _core
from weft._core import Tensor
from weft.graph._nodes import is_leaf
from weft.graph._values import Value, look

Node = Any


class Seen:
    """What was seen of one node. Lists have one entry per argument or result, None for unknown."""

    __slots__ = (
        "argument_gradients",
        "arguments",
        "backward_seconds",
        "forward_seconds",
        "gradients",
        "results",
    )

    def __init__(self) -> None:
        self.arguments: list[Value | None] = []
        self.results: list[Value | None] = []
        self.gradients: list[Value | None] = []  # with respect to the results
        self.argument_gradients: list[Value | None] = []  # what the node passes on
        # Since the operation before: with the Python code in between.
        self.forward_seconds: float | None = None
        self.backward_seconds: float | None = None

    @property
    def gradient_norm(self) -> float | None:
        """The 2-norm of the gradient of the first result that has one."""
        return next((value.norm for value in self.gradients if value is not None), None)


class Observations:
    """What was seen of each node of a recording, by the node's sequence number."""

    def __init__(self) -> None:
        self._seen: dict[int, Seen] = {}
        self.backward_order: list[int] = []  # sequence numbers
        self.backward_error = ""  # why there are no gradients

    def of(self, node: Node) -> Seen | None:
        return self._seen.get(node._sequence)

    def _at(self, node: Node) -> Seen:
        return self._seen.setdefault(node._sequence, Seen())

    # ---- forward ---------------------------------------------------------------------------------

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Inside, the arguments and results of every recorded operation are noted."""

        before_it = perf_counter()

        def observe(name: str, arguments: Any, results: Any, node: Node | None) -> None:
            nonlocal before_it
            now = perf_counter()
            # An operation composed of others is told of after its parts, with the node of the last.
            if node is None or node._sequence in self._seen:
                return
            seen = self._at(node)
            seen.forward_seconds = now - before_it
            seen.arguments = [_look_if_tensor(value) for value in arguments]
            seen.results = [_look_if_tensor(value) for value in results]
            before_it = perf_counter()

        before = _core._set_observer(observe)
        try:
            yield
        finally:
            _core._set_observer(before)

    # ---- backward --------------------------------------------------------------------------------

    def differentiate(self, nodes: Sequence[Node], outputs: Sequence[Tensor]) -> None:
        """One backward pass from the sum of ``outputs``; no ``.grad`` changes.

        The graph is kept. If the pass fails, ``backward_error`` says why.
        """
        from weft.autograd import grad
        from weft.autograd.graph import GradientEdge

        leaves = [node for node in nodes if is_leaf(node)]
        handles = [handle for node in nodes if not is_leaf(node) for handle in self._hook(node)]
        try:
            targets: Any = [GradientEdge(node, 0) for node in leaves]
            found = grad(
                outputs,
                targets,
                grad_outputs=[_core.ops["ones_like"](output) for output in outputs],
                retain_graph=True,
                allow_unused=True,
            )
        except RuntimeError as error:
            self.backward_error = str(error)
            return
        finally:
            for handle in handles:
                handle.remove()
        for leaf, gradient in zip(leaves, found, strict=True):
            if gradient is not None:
                self._at(leaf).gradients = [look(gradient)]
                self.backward_order.append(leaf._sequence)

    def look_at_leaves(self, nodes: Sequence[Node]) -> None:
        """Notes the values of leaves: the next step of an optimiser will change them."""
        for node in filter(is_leaf, nodes):
            self._at(node).results = [look(node.variable)]

    def _hook(self, node: Node) -> Sequence[Any]:
        seen = self._at(node)
        started = 0.0

        def before(gradients: Any) -> None:
            nonlocal started
            self.backward_order.append(node._sequence)
            seen.gradients = [_look_if_tensor(gradient) for gradient in gradients]
            started = perf_counter()

        def after(argument_gradients: Any, gradients: Any) -> None:
            seen.backward_seconds = perf_counter() - started
            seen.argument_gradients = [_look_if_tensor(value) for value in argument_gradients]

        return node.register_prehook(before), node.register_hook(after)


def _look_if_tensor(value: Any) -> Value | None:
    return look(value) if isinstance(value, Tensor) else None


def observe_call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Any, Observations]:
    """Calls ``function`` once and notes what happens in it."""
    observations = Observations()
    with observations.watching():
        returned = function(*args, **kwargs)
    return returned, observations

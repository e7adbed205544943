"""``backward`` and ``grad``: what the user says, checked and put into the engine's terms."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from weft import _core
from weft._core import Tensor

Tensors = Tensor | Sequence[Tensor]


def _is_edge(value: Any) -> bool:
    """A GradientEdge: a node and the number of one of its results."""
    return isinstance(value, tuple) and hasattr(value, "node") and hasattr(value, "output_nr")


def _targets(value: Any, name: str) -> tuple[Any, ...]:
    """Tensors and GradientEdges, one or several, as a tuple."""
    found = (value,) if isinstance(value, Tensor) or _is_edge(value) else tuple(value)
    for item in found:
        if not isinstance(item, Tensor) and not _is_edge(item):
            raise TypeError(
                f"{name} can be either Tensors or GradientEdges, but got {type(item).__name__}"
            )
    return found


def _shape(target: Any) -> Any:
    return target.shape if isinstance(target, Tensor) else target.node.results[target.output_nr][0]


def _gradients(value: Any, outputs: tuple[Any, ...], batched: bool = False) -> tuple[Any, ...]:
    if value is None:
        given: tuple[Any, ...] = (None,) * len(outputs)
    elif isinstance(value, Tensor):
        given = (value,)
    else:
        given = tuple(value)
    if len(given) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(given)} gradients")
    for i, (gradient, output) in enumerate(zip(given, outputs, strict=True)):
        if gradient is None:
            continue
        if not isinstance(gradient, Tensor):
            raise TypeError(
                "gradients can be either Tensors or None, but got " + type(gradient).__name__
            )
        expected = _shape(output)
        if batched and gradient.shape[1:] != expected:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output "
                "as the batch dimension. The sizes of the remaining dimensions are expected to "
                "match the shape of corresponding output, but a mismatch was detected: "
                f"grad_output[{i}] has a shape of {gradient.shape} and output[{i}] has a shape of "
                f"{expected}."
            )
        if not batched and gradient.shape != expected:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{i}] has a shape of {gradient.shape} and "
                f"output[{i}] has a shape of {expected}."
            )
    return given


_CYCLE = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter "
    "and its gradient which can cause a memory leak. We recommend using autograd.grad when "
    "creating the graph to avoid this. If you have to use this function, make sure to reset the "
    ".grad fields of your parameters to None after use to break the cycle and avoid the leak."
)


def backward(
    tensors: Tensors,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Tensors | None = None,
) -> None:
    """Adds the gradients of ``tensors`` to the ``.grad`` of the leaves they depend on."""
    if grad_variables is not None:
        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.",
            FutureWarning,
            stacklevel=2,
        )
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                "`backward()`. Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    roots = _targets(tensors, "the tensors to differentiate")
    targets = None
    if inputs is not None:
        targets = _targets(inputs, "inputs")
        if not targets:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    if create_graph:
        warnings.warn(_CYCLE, UserWarning, stacklevel=2)
    keep = create_graph if retain_graph is None else retain_graph
    gradients = _gradients(grad_tensors, roots)
    _core._backward(roots, gradients, keep, create_graph, targets, True, True)


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of ``outputs`` with respect to ``inputs``, as a tuple; no ``.grad`` changes."""
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    if allow_unused is None:
        allow_unused = materialize_grads
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To "
            "accumulate gradient for other parts of the graph, please use autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    roots = _targets(outputs, "outputs")
    targets = _targets(inputs, "inputs")
    if not targets:
        raise RuntimeError("grad requires non-empty inputs.")
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        return _batched_grad(
            roots, targets, grad_outputs, keep, create_graph, allow_unused, materialize_grads
        )
    gradients = _gradients(grad_outputs, roots)
    found: tuple[Any, ...] = _core._backward(
        roots, gradients, keep, create_graph, targets, False, allow_unused
    )
    if materialize_grads:
        found = tuple(
            _zeros_like(t) if g is None else g for g, t in zip(found, targets, strict=True)
        )
    return found


def _zeros_like(target: Any) -> Any:
    if isinstance(target, Tensor):
        return _core.ops["zeros_like"](target)
    return _core._zeros(*target.node.results[target.output_nr])


def _batched_grad(
    roots: tuple[Any, ...],
    targets: tuple[Any, ...],
    grad_outputs: Any,
    keep: bool,
    create_graph: bool,
    allow_unused: bool,
    materialize: bool,
) -> tuple[Any, ...]:
    """One backward pass per slice of the first dimension of ``grad_outputs``."""
    batches = _gradients(grad_outputs, roots, batched=True)
    sizes = {batch.shape[0] for batch in batches if batch is not None}
    if len(sizes) != 1:
        raise RuntimeError(
            "is_grads_batched=True: every grad_output needs the same size in its first dimension"
            if sizes
            else "grad can be implicitly created only for scalar outputs, not in batches"
        )
    count = sizes.pop()
    rows = [
        grad(
            roots,
            targets,
            tuple(None if batch is None else batch[i] for batch in batches),
            retain_graph=keep or i + 1 < count,
            create_graph=create_graph,
            allow_unused=allow_unused,
            materialize_grads=materialize,
        )
        for i in range(count)
    ]
    if not rows:
        return tuple(_zeros_like(t).expand(0, *_shape(t)) for t in targets)
    stack = _core.ops["stack"]
    return tuple(None if column[0] is None else stack(column) for column in zip(*rows, strict=True))

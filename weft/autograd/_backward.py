"""``backward`` and ``grad``: what the user says, checked and put into the engine's terms."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from weft import _core
from weft._core import Tensor

Tensors = Tensor | Sequence[Tensor]


def _tensors(value: Any, name: str) -> tuple[Any, ...]:
    if isinstance(value, Tensor):
        return (value,)
    if hasattr(value, "node") and hasattr(value, "output_nr"):
        return (value,)
    found = tuple(value)
    for item in found:
        if not isinstance(item, Tensor):
            raise TypeError(f"{name} must be Tensors, got {type(item).__name__}")
    return found


def _gradients(value: Any, outputs: tuple[Any, ...], create_graph: bool) -> tuple[Any, ...]:
    if value is None:
        given: tuple[Any, ...] = (None,) * len(outputs)
    elif isinstance(value, Tensor):
        given = (value,)
    else:
        given = tuple(value)
    if len(given) != len(outputs):
        raise RuntimeError(
            f"got {len(outputs)} tensors and {len(given)} gradients"
        )
    for i, (gradient, output) in enumerate(zip(given, outputs, strict=True)):
        if gradient is None:
            continue
        if not isinstance(gradient, Tensor):
            raise TypeError(
                "gradients can be either Tensors or None, but got " + type(gradient).__name__
            )
        if gradient.shape != output.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{i}] has a shape of {gradient.shape} and "
                f"output[{i}] has a shape of {output.shape}."
            )
    return given


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
    roots = _tensors(tensors, "the tensors to differentiate")
    targets = None
    if inputs is not None:
        targets = _tensors(inputs, "inputs")
        if not targets:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    keep = create_graph if retain_graph is None else retain_graph
    _core._backward(
        roots, _gradients(grad_tensors, roots, create_graph), keep, create_graph, targets, True, True
    )


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
    """The gradients of ``outputs`` with respect to ``inputs``, as a tuple; ``.grad`` stays as it is."""
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
    roots = _tensors(outputs, "outputs")
    targets = _tensors(inputs, "inputs")
    if not targets:
        raise ValueError("grad requires non-empty inputs.")
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        return _batched_grad(
            roots, targets, grad_outputs, keep, create_graph, allow_unused, materialize_grads
        )
    gradients = _gradients(grad_outputs, roots, create_graph)
    found = _core._backward(roots, gradients, keep, create_graph, targets, False, allow_unused)
    if materialize_grads:
        found = tuple(
            _zeros_like(t) if g is None else g for g, t in zip(found, targets, strict=True)
        )
    return found


def _zeros_like(tensor: Any) -> Any:
    return _core._alias(tensor) * 0 if tensor.numel() == 0 else _core.ops["zeros_like"](tensor)


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
    batches = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
    sizes = {batch.shape[0] for batch in batches if batch is not None}
    if len(sizes) != 1:
        raise RuntimeError(
            "is_grads_batched=True: every grad_output needs the same size in its first dimension"
        )
    count = sizes.pop()
    rows = []
    for i in range(count):
        gradients = tuple(None if batch is None else batch[i] for batch in batches)
        rows.append(
            grad(
                roots,
                targets,
                gradients,
                retain_graph=keep or i + 1 < count,
                create_graph=create_graph,
                allow_unused=allow_unused,
                materialize_grads=materialize,
            )
        )
    stack = _core.stack
    return tuple(
        None if column[0] is None else stack(column) for column in zip(*rows, strict=True)
    )

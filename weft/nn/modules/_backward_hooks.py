"""How a module's backward is made visible to hooks.

The module's inputs and results are led through an identity that is recorded like any operation. The
gradients that reach it are those of the whole module.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from weft._core import Tensor, is_grad_enabled
from weft.autograd import Function
from weft.nn.modules._state_dict import _WrappedHook

_EMPTY = "Cannot set Module backward hook for a Module with no input Tensors."


class BackwardHookFunction(Function):
    """The identity on several tensors at once."""

    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients


class BackwardHook:
    """The backward hooks of one call of a module."""

    def __init__(
        self, module: Any, user_hooks: Sequence[Any], user_pre_hooks: Sequence[Any]
    ) -> None:
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.n_inputs = -1
        self.n_outputs = -1
        self.input_places: list[int] | None = None  # of the tensors among the arguments
        self.output_places: list[int] | None = None
        self.grad_outputs: Any = None  # while the module's backward is under way

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Leads the arguments through the identity; returns the ones to go on with."""
        results, places = self._through_identity(self._watch_inputs, args)
        self.n_inputs = len(args)
        self.input_places = places
        return results

    def setup_output_hook(self, result: Any) -> Any:
        """The same for what the module gives back."""
        is_tuple = isinstance(result, tuple)
        results = result if is_tuple else (result,)
        self.n_outputs = len(results)
        watched, self.output_places = self._through_identity(self._watch_outputs, results)
        return watched if is_tuple else watched[0]

    def _through_identity(
        self, watch: Callable[[Any], None], values: tuple[Any, ...]
    ) -> tuple[tuple[Any, ...], list[int] | None]:
        places = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
        tensors = [values[i] for i in places]
        if not (is_grad_enabled() and any(t.requires_grad for t in tensors)):
            return values, None
        results = list(values)
        node = None
        for place, tensor in zip(places, BackwardHookFunction.apply(*tensors), strict=True):
            results[place] = tensor
            node = node or tensor.grad_fn
        if node is None:
            raise RuntimeError(_EMPTY)
        watch(node)
        named = hasattr(values, "_fields")
        return (type(values)(*results) if named else tuple(results)), places

    def _watch_inputs(self, node: Any) -> None:
        node.register_hook(self._inputs_arrived)

    def _watch_outputs(self, node: Any) -> None:
        node.register_prehook(self._outputs_arrived)

    def _outputs_arrived(self, gradients: tuple[Any, ...]) -> Any:
        self.grad_outputs = _spread(self.output_places, gradients, self.n_outputs)
        if self.user_pre_hooks:
            expected = len(self.grad_outputs)
            for hook in self.user_pre_hooks:
                answer = hook(self.module, self.grad_outputs)
                if answer is None:
                    continue
                answer = answer if isinstance(answer, tuple) else (answer,)
                if len(answer) != expected:
                    raise RuntimeError(
                        "Backward pre hook returned an invalid number of grad_output, "
                        f"got {len(answer)}, but expected {expected}"
                    )
                self.grad_outputs = answer
        # Read now: where no input needs a gradient, this ends the module's backward.
        grad_outputs = self.grad_outputs
        if self.input_places is None:
            nothing = (None,) * self.n_inputs
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module "
                "outputs since no inputs require gradients.",
                stacklevel=2,
            )
            for hook in self.user_hooks:
                answer = hook(self.module, nothing, grad_outputs)
                if answer is not None and not (
                    isinstance(answer, tuple) and all(a is None for a in answer)
                ):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always "
                        "return None or None for all gradients."
                    )
            self.grad_outputs = None
        if not self.user_pre_hooks:
            return None
        assert self.output_places is not None
        return tuple(grad_outputs[i] for i in self.output_places)

    def _inputs_arrived(self, gradients: tuple[Any, ...], _: Any) -> Any:
        if self.grad_outputs is None:
            return None  # the module's own backward has not begun: the inputs are used elsewhere
        grad_input = _spread(self.input_places, gradients, self.n_inputs)
        for hook in self.user_hooks:
            answer = hook(self.module, grad_input, self.grad_outputs)
            if answer is None:
                continue
            answer = answer if isinstance(answer, tuple) else (answer,)
            if len(answer) != len(grad_input):
                raise RuntimeError(
                    "Backward hook returned an invalid number of grad_input, "
                    f"got {len(answer)}, but expected {len(grad_input)}"
                )
            grad_input = answer
        self.grad_outputs = None
        assert self.input_places is not None
        return tuple(grad_input[i] for i in self.input_places)


def _spread(places: list[int] | None, gradients: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """The gradients at the places of their tensors, and None elsewhere."""
    spread: list[Any] = [None] * count
    for place, gradient in zip(places or (), gradients, strict=True):
        spread[place] = gradient
    return tuple(spread)


# -- the older form ---------------------------------------------------------------------------


def watch_result(module: Any, hooks: list[Any], args: Any, result: Any) -> None:
    """Registers hooks of the older form: on the node that made the (first) result."""
    first = result
    while not isinstance(first, Tensor):
        if isinstance(first, dict):
            first = next(value for value in first.values() if isinstance(value, Tensor))
        else:
            first = first[0]
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(_WrappedHook(hook, module))
    problem = _incomplete(args, result, node)
    if problem:
        warnings.warn(
            f"Using {problem} Please use register_full_backward_hook to get the documented "
            "behavior.",
            FutureWarning,
            stacklevel=5,
        )


def _incomplete(args: Any, result: Any, node: Any) -> str:
    """What hooks of the older form will not see of this call; empty if nothing."""
    kinds = {"grad_output": result, "grad_input": args}
    for missing, values in kinds.items():
        values = (values,) if isinstance(values, Tensor) else values
        if not (isinstance(values, tuple) and all(isinstance(v, Tensor) for v in values)):
            verb = "return" if missing == "grad_output" else "take as input"
            return (
                f"non-full backward hooks on a Module that does not {verb} a single Tensor or a "
                "tuple of Tensors is deprecated and will be removed in future versions. This hook "
                f"will be missing some of the {missing}."
            )
    results = (result,) if isinstance(result, Tensor) else result
    makers = {r.grad_fn for r in results if r.grad_fn is not None}
    if not makers or makers == makers - {node}:
        return (
            "a non-full backward hook when outputs are nested in python data structure is "
            "deprecated and will be removed in future versions. This hook will be missing some "
            "grad_output."
        )
    if len(makers) > 1:
        return (
            "a non-full backward hook when outputs are generated by different autograd Nodes is "
            "deprecated and will be removed in future versions. This hook will be missing some "
            "grad_output."
        )
    if {a.grad_fn for a in args if a.grad_fn is not None} != {n for n, _ in node.next_functions}:
        return (
            "a non-full backward hook when the forward contains multiple autograd Nodes is "
            "deprecated and will be removed in future versions. This hook will be missing some "
            "grad_input."
        )
    return ""

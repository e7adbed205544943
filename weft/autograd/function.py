"""Custom operations: a forward and a backward written by the user.

The core runs them and records them (bind/custom_function.cpp); what it leaves to this module are
the results that need thought: several at once, views, inputs that come back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft import _core
from weft.autograd._modes import no_grad

Tensor = _core.Tensor


class FunctionCtx:
    """Carries what forward tells backward; ``grad_fn`` of the results shows its attributes."""

    # On the class, because most contexts need no others.
    needs_input_grad: tuple[bool, ...] = ()
    to_save: tuple[Any, ...] = ()
    dirty_tensors: tuple[Any, ...] = ()
    non_differentiable: tuple[Any, ...] = ()
    materialize_grads = True
    _saved: tuple[Any, ...] | None = ()
    _node: Any = None  # while backward runs

    def save_for_backward(self, *tensors: Any) -> None:
        """Keeps tensors for backward, where ``saved_tensors`` gives them back, checked."""
        for i, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {i} is of type "
                    f"{type(tensor).__name__}"
                )
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keeps tensors for a forward-mode rule."""
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Says which inputs forward has changed in place."""
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Says which results have no derivative."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether gradients that nothing contributed to arrive as zeros instead of None."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        if self._saved is None:
            raise RuntimeError(
                "Trying to backward through the graph a second time (or directly access saved "
                "tensors after they have already been freed). Saved intermediate values of the "
                "graph are freed when you call .backward() or autograd.grad(). Specify "
                "retain_graph=True if you need to backward through the graph a second time or if "
                "you need to access saved tensors after calling backward."
            )
        if not self._saved and self.to_save:  # still inside forward
            return self.to_save
        node = self._node
        return tuple([None if s is None else s.get(node) for s in self._saved])


class Function(_core.FunctionBase):
    """Subclass with static methods ``forward`` and ``backward``, and call ``apply``."""

    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself. Instantiating an autograd "
            "function is deprecated: use MyFunction.apply(...)."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the result: ``forward(ctx, *args)``, or without ctx beside ``setup_context``."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Tells backward what it needs, when ``forward`` does not take ``ctx``."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of forward's arguments, one each, given those of its results."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The forward-mode rule."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )


def _positional(
    forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """The arguments of a call with names and defaults resolved: a rule is one for each of them."""
    import inspect

    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def _is_among(value: Any, values: tuple[Any, ...]) -> bool:
    return any(value is v for v in values)


def _finish(
    function: Any, context: FunctionCtx, args: tuple[Any, ...], result: Any, recording: bool
) -> Any:
    """What ``apply`` returns for what forward gave, recorded if there is a gradient to flow."""
    several = isinstance(result, tuple)
    given = result if several else (result,)
    results = [_own_result(value, args, context, recording) for value in given]
    if recording:
        _record(function, context, args, given, results)
    else:
        context._saved = None
    return tuple(results) if several else results[0]


def _record(
    function: Any,
    context: FunctionCtx,
    args: tuple[Any, ...],
    given: tuple[Any, ...],
    results: list[Any],
) -> None:
    for tensor in context.dirty_tensors:
        _check_dirty(tensor, given, results)
    positions = [i for i, value in enumerate(results) if isinstance(value, Tensor)]
    tensors = [results[i] for i in positions]
    differentiable = [
        results[i].is_floating_point() and not _is_among(given[i], context.non_differentiable)
        for i in positions
    ]
    if any(differentiable):
        places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        _core._record_function(
            function,
            context,
            places,
            "".join("t" if isinstance(value, Tensor) else "-" for value in results),
            [args[i] for i in places],
            tensors,
            differentiable,
            [_is_among(t, context.dirty_tensors) for t in tensors],
        )
    saved: list[Any] = []
    for tensor in context.to_save:
        number = next((k for k, i in enumerate(positions) if given[i] is tensor), None)
        is_input = _is_among(tensor, args) and not _is_among(tensor, context.dirty_tensors)
        kept = None if tensor is None else _core.SavedValue(tensor, None if is_input else number)
        saved.append(kept)
    context._saved = tuple(saved)
    context.to_save = context.dirty_tensors = context.non_differentiable = ()


def _own_result(value: Any, args: tuple[Any, ...], context: FunctionCtx, recording: bool) -> Any:
    """What the caller gets: an input that comes back unchanged does so as a view of itself."""
    if not isinstance(value, Tensor) or _is_among(value, context.dirty_tensors):
        return value
    is_input = _is_among(value, args)
    has_history = (
        recording and value.is_floating_point() and not _is_among(value, context.non_differentiable)
    )
    if has_history or not value.requires_grad:
        return value.view_as(value) if is_input else value
    if is_input:
        return value.detach()
    return value if value._is_view() else value.detach_()


def _check_dirty(tensor: Any, given: tuple[Any, ...], results: list[Any]) -> None:
    if not _is_among(tensor, given):
        raise RuntimeError(
            "Some elements marked as dirty during the forward method were not returned as output. "
            "The inputs that are modified inplace must all be outputs of the Function."
        )
    if tensor.requires_grad and tensor.is_leaf:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation."
        )
    if tensor._is_view() and sum(isinstance(value, Tensor) for value in results) > 1:
        raise RuntimeError(
            "If your Function modifies inplace an input that is a view of another Tensor, your "
            "Function cannot return more than one Tensor. This is not supported by the current "
            "autograd engine. You should either make sure the input is not a view (using .clone() "
            "for example) or make your Function only return one Tensor (potentially splitting it "
            "into two Functions: one doing the inplace that returns a single Tensor and a second "
            "one that does the other operations)."
        )
    _core._bump_version(tensor)


_core._set_function_parts(
    FunctionCtx, _finish, _positional, Function.setup_context, Function.backward, Function.vjp
)


class _NotTwice(Function):
    """Stands where the derivative of a once-differentiable backward would be."""

    @staticmethod
    def forward(ctx: Any, value: Any, *dependencies: Any) -> Any:
        return _core._alias(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a ``backward`` whose own derivative would be wrong: asking for it is an error."""

    @functools.wraps(backward)
    def once(ctx: Any, *gradients: Any) -> Any:
        recording = _core.is_grad_enabled()
        with no_grad():
            found = backward(ctx, *gradients)
        needing = [g for g in gradients if isinstance(g, Tensor) and g.requires_grad]
        if not recording or not needing:
            return found
        several = isinstance(found, tuple)
        marked = tuple(
            _NotTwice.apply(value, *needing) if isinstance(value, Tensor) else value
            for value in (found if several else (found,))
        )
        return marked if several else marked[0]

    return once


class InplaceFunction(Function):
    """A Function that may work in place; kept for programs that subclass it."""

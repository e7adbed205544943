"""Custom operations: a forward and a backward written by the user."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft import _core
from weft.autograd._modes import no_grad

Tensor = _core.Tensor


class _Saved:
    """A tensor kept for backward, with the version it had.

    A result is kept without its history, because the node would otherwise keep itself alive; the
    history is put back when the value is asked for.
    """

    __slots__ = ("output_nr", "tensor", "unpack", "version")

    def __init__(self, tensor: Any, output_nr: int | None) -> None:
        self.output_nr = output_nr
        self.version = None if tensor.is_inference() else tensor._version
        hooks = _core._current_saved_tensor_hooks()
        if hooks is not None:
            pack, self.unpack = hooks
            with no_grad():
                self.tensor = pack(tensor.detach() if output_nr is not None else tensor)
            self.version = None
        else:
            self.unpack = None
            self.tensor = _core._alias(tensor) if output_nr is not None else tensor

    def get(self, node: Any, name: str) -> Any:
        if self.unpack is not None:
            value = self.unpack(self.tensor)
        else:
            value = self.tensor
            if self.version is not None and value._version != self.version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an "
                    f"inplace operation: [{value.dtype} {list(value.shape)}], which "
                    f"{'is' if self.output_nr is None else 'is output ' + str(self.output_nr) + ' of'}"
                    f" {'saved by ' + name if self.output_nr is None else name}, is at version "
                    f"{value._version}; expected version {self.version} instead."
                )
        if self.output_nr is not None and node is not None and _core.is_grad_enabled():
            return _core._with_history(value, node, self.output_nr)
        return value


class FunctionCtx:
    """Carries what forward wants to tell backward."""

    def __init__(self) -> None:
        self.needs_input_grad: tuple[bool, ...] = ()
        self._to_save: tuple[Any, ...] = ()
        self._saved: tuple[_Saved | None, ...] | None = ()
        self._dirty: tuple[Any, ...] = ()
        self._non_differentiable: tuple[Any, ...] = ()
        self._materialize_grads = True
        self._node: Any = None
        self._name = ""

    def save_for_backward(self, *tensors: Any) -> None:
        """Keeps tensors for backward, where ``saved_tensors`` gives them back, checked."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    "save_for_backward can only save variables, but argument "
                    f"{tensors.index(tensor)} is of type {type(tensor).__name__}"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keeps tensors for a forward-mode rule."""
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Says which inputs forward has changed in place."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Says which results have no derivative."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether gradients that nothing contributed to arrive as zeros instead of None."""
        self._materialize_grads = value

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
        if not self._saved and self._to_save:  # still inside forward
            return self._to_save
        return tuple(None if s is None else s.get(self._node, self._name) for s in self._saved)


class _Backward:
    """What the recorded node calls."""

    __slots__ = ("context", "function", "metas", "places")

    def __init__(self, function: Any, context: FunctionCtx, places: list[int]) -> None:
        self.function = function
        self.context = context
        self.places = places  # of the tensors among forward's arguments
        self.metas: list[tuple[Any, Any]] = []  # shape and dtype of each result

    def __call__(self, gradients: tuple[Any, ...], needs: tuple[bool, ...], node: Any) -> Any:
        context = self.context
        if context._materialize_grads:
            gradients = tuple(
                _core._zeros(shape, dtype) if g is None else g
                for g, (shape, dtype) in zip(gradients, self.metas, strict=True)
            )
        context._node = node
        try:
            with _as_user_code():
                found = self.function.backward(context, *gradients)
        finally:
            context._node = None
        return self._checked(found)

    def _checked(self, found: Any) -> tuple[Any, ...]:
        if not isinstance(found, tuple):
            found = (found,)
        count = len(self.context.needs_input_grad)
        name = self.context._name
        if len(found) > count and all(g is None for g in found[count:]):
            found = found[:count]
        if len(found) != count:
            raise RuntimeError(
                f"function {name} returned an incorrect number of gradients (expected {count}, "
                f"got {len(found)})"
            )
        for i, gradient in enumerate(found):
            if gradient is None:
                continue
            if i not in self.places:
                raise RuntimeError(
                    f"function {name} returned a gradient different from None at position {i + 1}, "
                    "but the corresponding forward input was not a Variable"
                )
            if not isinstance(gradient, Tensor):
                raise TypeError(
                    f"expected Variable or None (got {type(gradient).__name__}) as gradient "
                    f"{i + 1} of {name}"
                )
        return tuple(found[i] for i in self.places)

    def release(self) -> None:
        self.context._saved = None


class _as_user_code:
    """Inside backward of a custom function the user's own lines are recorded again."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = _core._enter_user_code()

    def __exit__(self, *exception: object) -> None:
        _core._leave_user_code(self.before)


class Function:
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
        """Computes the result. ``forward(ctx, *args)``, or ``forward(*args)`` with setup_context."""
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

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The forward-mode rule."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs the function and records it."""
        context = FunctionCtx()
        places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        recording = _core.is_grad_enabled()
        context.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        context._name = cls.__name__ + "Backward"
        needed = recording and any(context.needs_input_grad)
        with no_grad():
            if cls.setup_context is not Function.setup_context:
                result = cls.forward(*args, **kwargs)
                cls.setup_context(context, args, result)
            else:
                result = cls.forward(context, *args, **kwargs)
        one = not isinstance(result, tuple)
        results = [result] if one else list(result)
        if not needed:
            context._saved = None
            return result
        cls._record(context, args, places, results)
        return results[0] if one else tuple(results)

    @classmethod
    def _record(
        cls, context: FunctionCtx, args: tuple[Any, ...], places: list[int], results: list[Any]
    ) -> None:
        def among(tensor: Any, tensors: tuple[Any, ...]) -> bool:
            return any(tensor is t for t in tensors)

        call = _Backward(cls, context, places)
        given = tuple(results)
        tensors, differentiable, dirty = [], [], []
        for i, value in enumerate(results):
            if not isinstance(value, Tensor):
                continue
            is_dirty = among(value, context._dirty)
            if not is_dirty and (among(value, args) or value._is_view()):
                value = _core._alias(value)
                results[i] = value
            tensors.append(value)
            dirty.append(is_dirty)
            differentiable.append(
                value.is_floating_point() and not among(given[i], context._non_differentiable)
            )
        for tensor in context._dirty:
            if not among(tensor, given):
                raise RuntimeError(
                    "Some elements marked as dirty during the forward method were not returned as "
                    "output. The inputs that are modified inplace must all be outputs of the Function."
                )
            if tensor.requires_grad and tensor.is_leaf:
                raise RuntimeError(
                    "a leaf Variable that requires grad is being used in an in-place operation."
                )
        for value, is_dirty in zip(tensors, dirty, strict=True):
            if is_dirty:
                _core._bump_version(value)
        call.metas = [(t.shape, t.dtype) for t in tensors]
        inputs = [args[i] for i in places]
        positions = [i for i, value in enumerate(given) if isinstance(value, Tensor)]
        if any(differentiable):
            _core._record_function(
                call, context._name, inputs, tensors, tuple(differentiable), tuple(dirty)
            )
        saved: list[_Saved | None] = []
        for tensor in context._to_save:
            if tensor is None:
                saved.append(None)
                continue
            number = next((k for k, i in enumerate(positions) if given[i] is tensor), None)
            is_input = among(tensor, args) and not among(tensor, context._dirty)
            saved.append(_Saved(tensor, None if is_input else number))
        context._saved = tuple(saved)
        context._to_save = ()
        context._dirty = context._non_differentiable = ()


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


class NestedIOFunction(Function):
    """Kept for programs that import the name."""

"""Activation checkpointing: parts of a model are computed again in backward instead of kept.

The variant that ``use_reentrant=False`` chooses records the graph as always, but keeps only empty
places where values would be saved. The first of them that backward asks for makes the function run
again, which fills all of them. The reentrant variant records nothing, and runs a backward pass of
its own over a second forward.
"""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft import _core
from weft.autograd import Function, backward, enable_grad, no_grad
from weft.autograd.graph import saved_tensors_hooks
from weft.ops.random import fork_rng, get_rng_state, set_rng_state

Tensor, SavedValue = _core.Tensor, _core.SavedValue
Contexts = Callable[[], tuple[contextlib.AbstractContextManager[Any], ...]]

_early_stop_override: bool | None = None


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function did not do what the first one did."""


def noop_context_fn() -> tuple[contextlib.AbstractContextManager[Any], ...]:
    """The default of ``context_fn``: neither run happens inside anything."""
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Inside, whether a second run ends as soon as all values are there, whatever calls say."""
    global _early_stop_override
    before, _early_stop_override = _early_stop_override, enable
    try:
        yield
    finally:
        _early_stop_override = before


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Contexts = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)``, whose intermediate values are computed again in backward.

    Args:
        use_reentrant: which of the two variants; say False unless an old program needs the other.
        context_fn: gives two context managers, for the first and for the second run.
        determinism_check: "default" compares shape and dtype of what the two runs save; "none".
        debug: errors list everything that the two runs saved.
        early_stop: end the second run as soon as all values are there.
        preserve_rng_state: let the second run draw the random numbers of the first.
    """
    if use_reentrant is None:
        _warn_without_variant()
        use_reentrant = True
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug:
            raise ValueError(
                "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
            )
        if _core.is_grad_enabled() and not any(map(_requires_grad, args)):
            warnings.warn(
                "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
            )
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of ['default', 'none'] but got {determinism_check}"
        )
    if not _core.is_grad_enabled():
        return function(*args, **kwargs)
    if _early_stop_override is not None:
        early_stop = _early_stop_override
    first, second = context_fn()
    region = _Region(function, args, kwargs, second, preserve_rng_state)
    region.checked = determinism_check == "default"
    region.debug = debug
    region.early_stop = early_stop
    with saved_tensors_hooks(region.pack, _unpack), first:
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> Any:
    """Runs functions one after the other, all but the last of ``segments`` groups checkpointed.

    Args:
        functions: a list of functions or modules, or a container of modules.
        segments: how many groups to make.
        input: what the first function is called with.
    """
    if use_reentrant is None:
        _warn_without_variant()
        use_reentrant = True
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def group(steps: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for step in steps:
                value = step(value)
            return value

        return run

    size = len(steps) // segments
    last = size * (segments - 1)
    for start in range(0, last, size):
        input = checkpoint(
            group(steps[start : start + size]),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve_rng_state,
        )
    return group(steps[last:])(input)


def _requires_grad(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _warn_without_variant() -> None:
    warnings.warn(
        "weft.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
        "use_reentrant=False is recommended; use_reentrant=True is what you get without it.",
        stacklevel=3,
    )


@contextlib.contextmanager
def _drawing_from(state: Any) -> Iterator[None]:
    """Random numbers come from ``state`` inside, and go on afterwards as if nothing had been."""
    if state is None:
        yield
        return
    with fork_rng():
        set_rng_state(state)
        yield


# ---- filling empty places ------------------------------------------------------------------------


class _Enough(Exception):
    """Ends a second run: all values are there."""


class _Place:
    """Stands in a node for a value that is to be computed again."""

    __slots__ = ("__weakref__", "number", "region", "value")

    def __init__(self, region: _Region, number: int) -> None:
        self.region = region
        self.number = number
        self.value: Any = None


def _unpack(place: _Place) -> Any:
    if place.value is None:
        place.region.run_again()
    if place.value is None:
        raise CheckpointError(
            "weft.utils.checkpoint: a value that backward needs was not computed again. "
            + place.region.comparison([])
        )
    return place.value


class _Region:
    """One call of a checkpointed function."""

    checked = True
    debug = False
    early_stop = True

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        second: contextlib.AbstractContextManager[Any],
        preserve_rng_state: bool,
    ) -> None:
        self.function = function
        # Inputs are saved values like any other: a checkpoint around this one keeps them for it.
        self.args = [_Argument(value) for value in args]
        self.kwargs = {name: _Argument(value) for name, value in kwargs.items()}
        self.second = second
        self.random_state = get_rng_state() if preserve_rng_state else None
        self.places: list[weakref.ref[_Place]] = []
        self.saved: list[str] = []  # shape and dtype of each

    def pack(self, tensor: Any) -> _Place:
        place = _Place(self, len(self.places))
        self.places.append(weakref.ref(place))
        self.saved.append(_description(tensor))
        return place

    def run_again(self) -> None:
        found: list[str] = []

        def keep(tensor: Any) -> Any:
            number = len(found)
            found.append(_description(tensor))
            place = self.places[number]() if number < len(self.places) else None
            if place is not None:
                place.value = tensor.detach()
            if self.early_stop and len(found) == len(self.places):
                raise _Enough
            return tensor.detach()

        args = [argument.get() for argument in self.args]
        kwargs = {name: argument.get() for name, argument in self.kwargs.items()}
        with (
            _drawing_from(self.random_state),
            enable_grad(),
            saved_tensors_hooks(keep, lambda tensor: tensor),
            self.second,
            contextlib.suppress(_Enough),
        ):
            self.function(*args, **kwargs)
        if len(found) != len(self.saved):
            raise CheckpointError(
                "weft.utils.checkpoint: A different number of tensors was saved during the "
                "original forward and recomputation. "
                f"Number of tensors saved during forward: {len(self.saved)}, during "
                f"recomputation: {len(found)}. {self.comparison(found)}"
            )
        if self.checked and found != self.saved:
            raise CheckpointError(
                "weft.utils.checkpoint: Recomputed values for the following tensors have "
                f"different metadata than during the forward pass. {self.comparison(found)}"
            )

    def comparison(self, found: list[str]) -> str:
        lines = [
            f"\ntensor at position {i}: saved {saved}, recomputed {again}"
            for i, (saved, again) in enumerate(zip(self.saved, found, strict=False))
            if saved != again or self.debug
        ]
        return (
            "The function has to do the same each time it is called: look for random numbers from "
            "another generator, for globals, and for modules that change." + "".join(lines)
        )


class _Argument:
    """What the function was called with, to be given to it again."""

    __slots__ = ("requires_grad", "value")

    def __init__(self, value: Any) -> None:
        self.requires_grad = _requires_grad(value)
        self.value = SavedValue(value) if isinstance(value, Tensor) else value

    def get(self) -> Any:
        if not isinstance(self.value, SavedValue):
            return self.value
        tensor = self.value.get()
        if self.requires_grad and not tensor.requires_grad:  # computed again without its history
            return tensor.detach().requires_grad_()
        return tensor


def _description(tensor: Any) -> str:
    return f"{tensor.dtype}{list(tensor.shape)} on {tensor.device}"


# ---- a backward pass within the backward pass ----------------------------------------------------


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same values as leaves, which require a gradient where the tensors given do."""
    return tuple(
        value.detach().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value
        for value in inputs
    )


class CheckpointFunction(Function):
    """The reentrant variant."""

    @staticmethod
    def forward(
        ctx: Any, function: Callable[..., Any], preserve_rng_state: bool, *args: Any
    ) -> Any:
        ctx.function = function
        ctx.random_state = get_rng_state() if preserve_rng_state else None
        ctx.places = [i for i, value in enumerate(args) if isinstance(value, Tensor)]
        ctx.args = [None if isinstance(value, Tensor) else value for value in args]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        with no_grad():
            return function(*args)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        if _core._pass_has_inputs():
            raise RuntimeError(
                "When use_reentrant=True, weft.utils.checkpoint is incompatible with .grad() or "
                "passing an `inputs` parameter to .backward(). To resolve this error, you can "
                "either set use_reentrant=False, or call .backward() without passing the `inputs` "
                "argument."
            )
        args = list(ctx.args)
        for i, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[i] = tensor
        leaves = detach_variable(tuple(args))
        with _drawing_from(ctx.random_state), enable_grad():
            results = ctx.function(*leaves)
        pairs = [
            (result, gradient)
            for result, gradient in zip(
                results if isinstance(results, tuple) else (results,), gradients, strict=False
            )
            if _requires_grad(result)
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        backward([result for result, _ in pairs], [gradient for _, gradient in pairs])
        return None, None, *(v.grad if isinstance(v, Tensor) else None for v in leaves)

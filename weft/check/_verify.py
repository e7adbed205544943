"""Gradients against central differences, with the figures kept.

Note [What is compared]
The outputs are multiplied by random weights and summed, so that one backward gives a gradient per
input; every element of it (or ``samples`` of them, drawn by the seed, where there are more) is
compared with a central difference of the same sum. Weights of either sign and a size between 1/2
and 3/2 hide no element, and errors of several elements have no reason to cancel.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import os
import random
from collections.abc import Callable, Iterable
from typing import Any

import weft
from weft._core import Tensor
from weft.autograd._jacobians import as_tuple, random_weights, unravel
from weft.check import _targets
from weft.check._record import InputResult, Record, environment

# By dtype: how far to move an element, and what to allow.
_SETTINGS = {
    weft.float64: (1e-6, 1e-6, 1e-5),
    weft.float32: (1e-2, 5e-3, 2e-2),
}


def verify(
    function: Any,
    inputs: Any = None,
    *,
    seed: int = 0,
    dtype: weft.dtype = weft.float64,
    step: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    samples: int = 256,
    second_order: bool = False,
    record: str | os.PathLike[str] | None = None,
) -> Record:
    """Checks the gradients of a function or Module, and returns the record of it.

    ``inputs`` are the arguments (those that require grad are checked, and the parameters of a
    Module always); without them the annotations of the parameters say what to draw. ``function``
    may be a string, ``"module.py:name"``, as on the command line. The record is written to
    ``record``.

    >>> x = weft.rand(3, dtype=weft.float64, requires_grad=True)
    >>> weft.verify(lambda x: x.sin().sum(), x).passed
    True
    """
    if dtype not in _SETTINGS:
        raise ValueError(f"verify: {dtype} is too coarse for finite differences; use float64")
    defaults = _SETTINGS[dtype]
    step, atol, rtol = (
        default if given is None else given
        for given, default in zip((step, atol, rtol), defaults, strict=True)
    )
    weft.manual_seed(seed)
    target = _name_of(function)
    described: list[str]
    digest: str | None
    if isinstance(function, str):
        function, arguments, described, digest = _targets.resolve(function, inputs or (), dtype)
    else:
        digest = _source_digest(function)
        if inputs is None:
            described = _targets.annotations_of(getattr(function, "forward", function))
            arguments = tuple(_targets.draw(text, dtype) for text in described)
        else:
            arguments = as_tuple(inputs)
            described = [_described(argument) for argument in arguments]
    results = _compare_all(function, arguments, seed, step, atol, rtol, samples, second_order)
    kept = Record(
        target=target,
        arguments=described,
        seed=seed,
        dtype=str(dtype).removeprefix("weft.").removeprefix("torch."),
        step=step,
        atol=atol,
        rtol=rtol,
        samples=samples,
        second_order=second_order,
        results=results,
        source_sha256=digest,
        environment=environment({"default_dtype": str(weft.get_default_dtype())}),
    )
    if record is not None:
        kept.save(record)
    return kept


def repeat(path: str | os.PathLike[str]) -> tuple[Record, Record, list[str]]:
    """Runs a record's check again: the old record, the new one, and what is not the same."""
    before = Record.load(path)
    if ":" not in before.target:
        raise ValueError(
            f"{os.fspath(path)}: the record is of {before.target}, which has no file to find it "
            'in; verify("module.py:name") makes records that can be repeated'
        )
    after = verify(
        before.target,
        before.arguments,
        seed=before.seed,
        dtype=getattr(weft, before.dtype),
        step=before.step,
        atol=before.atol,
        rtol=before.rtol,
        samples=before.samples,
        second_order=before.second_order,
    )
    changed = []
    if before.source_sha256 != after.source_sha256:
        changed.append(f"the source of {before.target} has changed")
    old, new = before.figures(), after.figures()
    if len(old) != len(new):
        changed.append(f"{len(new)} inputs instead of {len(old)}")
    for a, b in zip(old, new, strict=False):
        changed += [
            f"{a['name']}: {key} is {b[key]} instead of {a[key]}"
            for key in a
            if a[key] != b[key] and not (a[key] != a[key] and b[key] != b[key])  # two NaNs
        ]
    return before, after, changed


def _compare_all(
    function: Any,
    arguments: tuple[Any, ...],
    seed: int,
    step: float,
    atol: float,
    rtol: float,
    samples: int,
    second_order: bool,
) -> list[InputResult]:
    leaves = list(_leaves(function, arguments))
    if not leaves:
        raise ValueError(
            "verify: nothing to check: no input requires grad and there are no parameters"
        )
    source = random.Random(seed)
    state = weft.get_rng_state()

    def outputs() -> list[Tensor]:
        weft.set_rng_state(state)  # dropout drops the same elements every time
        found = [t for t in as_tuple(function(*arguments)) if isinstance(t, Tensor)]
        return [t for t in found if t.is_floating_point()]

    weights = [random_weights(source, t).to(t.dtype) for t in outputs()]

    def projected() -> Tensor:
        total = sum((t * w).sum() for t, w in zip(outputs(), weights, strict=True))
        if not isinstance(total, Tensor) or not total.requires_grad:
            raise ValueError(
                "verify: the result has no history: the graph is cut somewhere (detach(), "
                "no_grad(), item() or a conversion)"
            )
        return total

    tensors = [tensor for _, tensor in leaves]
    results = _compare(projected, leaves, 1, source, step, atol, rtol, samples)
    if second_order:
        directions = [random_weights(source, t).to(t.dtype) for t in tensors]

        def slope() -> Tensor:
            gradients = weft.autograd.grad(
                projected(), tensors, create_graph=True, allow_unused=True
            )
            pairs = zip(gradients, directions, strict=True)
            total: Tensor = sum((g * d).sum() for g, d in pairs if g is not None)
            return total

        if slope().requires_grad:
            results += _compare(slope, leaves, 2, source, step, atol, rtol, samples)
    return results


def _compare(
    scalar: Callable[[], Tensor],
    leaves: list[tuple[str, Tensor]],
    order: int,
    source: random.Random,
    step: float,
    atol: float,
    rtol: float,
    samples: int,
) -> list[InputResult]:
    gradients = weft.autograd.grad(scalar(), [tensor for _, tensor in leaves], allow_unused=True)
    results = []
    for (name, tensor), gradient in zip(leaves, gradients, strict=True):
        count = tensor.numel()
        positions: Iterable[int] = range(count)
        if count > samples:
            positions = sorted(source.sample(range(count), samples))
        found = gradient.detach().reshape(-1) if gradient is not None else None
        flat = tensor.detach().view(-1) if tensor.is_contiguous() else tensor.detach().reshape(-1)
        worst = (-1.0, 0, 0.0, 0.0, 0.0)
        wrong = False
        compared = 0
        for position in positions:
            analytical = float(found[position]) if found is not None else 0.0
            numerical = _difference(scalar, tensor, flat, position, step)
            error = abs(analytical - numerical)
            allowed = atol + rtol * abs(numerical)
            wrong |= not error <= allowed  # a NaN anywhere is wrong
            share = math.inf if math.isnan(error) else error / allowed
            compared += 1
            if share > worst[0]:
                worst = (share, position, analytical, numerical, allowed)
        shape = tuple(tensor.shape)
        results.append(
            InputResult(
                name=name,
                shape=list(shape),
                dtype=str(tensor.dtype).rpartition(".")[2],
                order=order,
                elements=compared,
                worst_error=abs(worst[2] - worst[3]),
                worst_at=list(unravel(worst[1], shape)) if compared else [],
                analytical=worst[2],
                numerical=worst[3],
                allowed=worst[4],
                passed=not wrong,
            )
        )
    return results


def _difference(
    scalar: Callable[[], Tensor], tensor: Tensor, flat: Tensor, position: int, step: float
) -> float:
    """The central difference of a scalar in one element, which is moved where it is."""
    index = unravel(position, tuple(tensor.shape))
    data = tensor.detach()
    original = flat[position].item()
    try:
        data[index] = original + step
        above, moved_up = scalar().item(), data[index].item()
        data[index] = original - step
        below, moved_down = scalar().item(), data[index].item()
    finally:
        data[index] = original
    return float((above - below) / (moved_up - moved_down))


def _leaves(function: Any, arguments: tuple[Any, ...]) -> Iterable[tuple[str, Tensor]]:
    try:
        names = list(inspect.signature(getattr(function, "forward", function)).parameters)
    except (TypeError, ValueError):
        names = []
    for i, argument in enumerate(arguments):
        if isinstance(argument, Tensor) and argument.requires_grad:
            yield (names[i] if i < len(names) else f"input {i}"), argument
    if _targets.is_module(function):
        for name, parameter in function.named_parameters():
            if parameter.requires_grad:
                yield name, parameter


def _name_of(function: Any) -> str:
    if isinstance(function, str):
        return function
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _described(argument: Any) -> str:
    if isinstance(argument, Tensor):
        return f"{str(argument.dtype).rpartition('.')[2]}{list(argument.shape)}"
    return type(argument).__name__


def _source_digest(function: Any) -> str | None:
    try:
        subject = function if inspect.isroutine(function) else type(function)
        return hashlib.sha256(inspect.getsource(subject).encode()).hexdigest()
    except (OSError, TypeError):
        return None

"""Checks derivatives against finite differences, and says what is wrong with them.

`gradcheck` moves every input element by `eps` to either side and compares the change of every
output with what backward (or forward mode) claims. In `fast_mode` all elements of an input move at
once in a random direction; where the result is doubtful, the elements are looked at one by one. So
both modes pass and fail alike: fast mode can overlook an error only by a coincidence of random
numbers, and (but for Jacobians too large to look at) reports none that the full check would not.
"""

from __future__ import annotations

import importlib
import itertools
import math
import random
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import weft
from weft._core import Tensor
from weft.autograd._jacobians import (
    Backward,
    Forward,
    GradcheckError,
    Jacobians,
    Subject,
    as_tuple,
    doubles,
    numerical_jacobians,
    numerical_projection,
    random_weights,
    unravel,
    values_beside,
)

# Beyond this many entries a doubtful projection is reported as it is, without finding the element.
_LARGEST_TO_LOCATE = 4_000_000
_PROBES = 2
# Whole Jacobians up to this many entries are shown in a message.
_LARGEST_TO_SHOW = 64


class _Tolerance(NamedTuple):
    eps: float
    atol: float
    rtol: float
    nondet: float


def _element_name(what: str, number: int, index: tuple[int, ...]) -> str:
    return f"{what} {number}[{', '.join(map(str, index))}]" if index else f"{what} {number}"


# Comparison ---------------------------------------------------------------------------------------


class _Mismatch(NamedTuple):
    """The entries of one Jacobian that differ, and the worst of them."""

    output: int
    input: int
    wrong: int
    row: int
    column: int
    numerical: Tensor
    analytical: Tensor


def _mismatch(
    pair: tuple[int, int], numerical: Tensor, analytical: Tensor, tolerance: _Tolerance
) -> _Mismatch | None:
    difference = (analytical - numerical.to(analytical.device)).abs()
    allowed = tolerance.atol + tolerance.rtol * numerical.abs()
    # Written so that a NaN anywhere counts as different.
    if not difference.numel() or bool((difference <= allowed).all().item()):
        return None
    excess = [
        math.inf if math.isnan(value) else value
        for value in (difference - allowed).reshape(-1).tolist()
    ]
    worst = max(range(len(excess)), key=excess.__getitem__)
    row, column = divmod(worst, numerical.shape[1])
    wrong = sum(value > 0 for value in excess)
    return _Mismatch(*pair, wrong, row, column, numerical, analytical)


def _pattern(numerical: Tensor, analytical: Tensor, tolerance: _Tolerance) -> str:
    """What the wrong entries have in common, where they have."""
    pairs = list(zip(numerical.reshape(-1).tolist(), analytical.reshape(-1).tolist(), strict=True))
    if not all(math.isfinite(n) and math.isfinite(a) for n, a in pairs):
        return "Some derivatives are not finite: the point may lie outside the function's domain."

    def close(one: float, other: float) -> bool:
        return abs(one - other) <= tolerance.atol + 10 * tolerance.rtol * abs(other)

    if all(close(a, 0.0) for _, a in pairs):
        return "The analytical derivative is zero throughout: a path through the graph is missing."
    if all(close(n, 0.0) for n, _ in pairs):
        return "The numerical derivative is zero throughout: the output does not depend on it."
    largest_n, largest_a = max(pairs, key=lambda pair: abs(pair[0]))
    factor = largest_a / largest_n
    if all(close(a, factor * n) for n, a in pairs):
        if close(factor, -1.0):
            return "Every entry has the opposite sign."
        return f"Every entry is {factor:.6g} times what it should be: look for that factor."
    rows, columns = numerical.shape
    if rows == columns and all(
        close(a, n)
        for a, n in zip(
            analytical.reshape(-1).tolist(), numerical.t().reshape(-1).tolist(), strict=True
        )
    ):
        return "The analytical Jacobian is the transpose of the numerical one: look for mixed axes."
    return ""


def _kink(subject: Subject, found: _Mismatch, tolerance: _Tolerance) -> tuple[str, bool]:
    """Whether the function bends so sharply here that finite differences mean nothing: a sentence
    about it (empty if it does not), and whether that alone explains the worst mismatch."""
    index = unravel(found.column, tuple(subject.inputs[found.input].shape))
    here = subject.values()[found.output][found.row].item()
    slopes = []
    for step in (-tolerance.eps, tolerance.eps):
        values, moved = values_beside(subject, found.input, index, step)
        slopes.append((values[found.output][found.row].item() - here) / moved)
    left, right = (slope + 0.0 for slope in slopes)  # no negative zeros in the message
    gap = abs(right - left)
    numerical = found.numerical[found.row, found.column].item()
    analytical = found.analytical[found.row, found.column].item()
    if not gap > 10 * (tolerance.atol + tolerance.rtol * min(abs(left), abs(right))):
        return "", False
    text = (
        f"The one-sided differences disagree: {left:.6g} from below, {right:.6g} from above. There "
        f"is a kink or a jump within eps={tolerance.eps} of this point"
    )
    if gap >= 0.9 * abs(numerical - analytical):
        return (
            f"{text}, which explains the mismatch: move the point away from it and check again.",
            True,
        )
    return f"{text}, but it is too small to explain the mismatch; move the point to be sure.", False


def _describe(
    subject: Subject, found: _Mismatch, others: list[_Mismatch], mode: str, tolerance: _Tolerance
) -> str:
    numerical = found.numerical[found.row, found.column].item()
    analytical = found.analytical[found.row, found.column].item()
    output_shape = subject.shapes[found.output]
    input_shape = tuple(subject.inputs[found.input].shape)
    output_name = _element_name("output", found.output, unravel(found.row, output_shape))
    input_name = _element_name("input", found.input, unravel(found.column, input_shape))
    lines = [
        f"Jacobian mismatch for output {found.output} with respect to input {found.input} "
        f"({mode}): {found.wrong} of {found.numerical.numel()} entries differ.",
        f"Worst: d({output_name}) / d({input_name}): numerical {numerical:.10g}, analytical "
        f"{analytical:.10g}, difference {abs(analytical - numerical):.3g}, allowed "
        f"{tolerance.atol + tolerance.rtol * abs(numerical):.3g} "
        f"(atol={tolerance.atol}, rtol={tolerance.rtol}, eps={tolerance.eps}).",
    ]
    noise = subject.noise()
    if noise > 0:
        lines.append(
            f"The function is not deterministic: two calls with the same inputs differ by "
            f"{noise:.3g}. Finite differences need it to be (fix the random state, use eval mode)."
        )
    else:
        kink, explains_all = _kink(subject, found, tolerance)
        if not explains_all:
            lines.append(_pattern(found.numerical, found.analytical, tolerance))
        lines.append(kink)
    coarse = _coarse_inputs(subject)
    if coarse:
        lines.append(f"{coarse} A small mismatch may mean no more than that.")
    lines += [
        f"Also output {other.output} with respect to input {other.input}: "
        f"{other.wrong} of {other.numerical.numel()} entries."
        for other in others
    ]
    if found.numerical.numel() <= _LARGEST_TO_SHOW:
        lines.append(f"numerical:{found.numerical}\nanalytical:{found.analytical}")
    return "\n".join(line for line in lines if line)


def _compare(
    subject: Subject,
    numerical: Jacobians,
    analytical: Jacobians,
    mode: str,
    tolerance: _Tolerance,
) -> None:
    found = [
        mismatch
        for pair in numerical
        if (mismatch := _mismatch(pair, numerical[pair], analytical[pair], tolerance)) is not None
    ]
    if found:
        raise GradcheckError(_describe(subject, found[0], found[1:], mode, tolerance))


def _check_in_full(
    subject: Subject, mode: type[Backward | Forward], check_dtypes: bool, tolerance: _Tolerance
) -> None:
    numerical = numerical_jacobians(subject, subject.differentiable, tolerance.eps)
    derivatives = mode(subject, check_dtypes)
    analytical = derivatives.jacobians()
    _compare(subject, numerical, analytical, mode.name, tolerance)
    for pair, again in derivatives.jacobians().items():
        _check_deterministic(pair, analytical[pair], again, mode.name, tolerance.nondet)


def _check_by_projection(
    subject: Subject, mode: type[Backward | Forward], check_dtypes: bool, tolerance: _Tolerance
) -> None:
    # A generator of its own: checking a gradient must not change what the program draws next.
    source = random.Random(20)
    for _ in range(_PROBES):
        moves = {i: numerical_projection(subject, i, tolerance.eps, source) for i in subject.inputs}
        derivatives = mode(subject, check_dtypes)
        outputs = subject.recorded()
        weights = {number: random_weights(source, outputs[number]) for number in outputs}
        directions = {i: move.direction for i, move in moves.items()}
        analytical = derivatives.projections(directions, weights)
        again = derivatives.projections(directions, weights)
        for (number, i), claimed in analytical.items():
            slope = (doubles(weights[number]) * moves[i].slopes[number]).sum().item()
            entries = weights[number].numel() * directions[i].numel()
            if not _projections_agree(slope, claimed, entries, tolerance):
                if entries > _LARGEST_TO_LOCATE:
                    raise GradcheckError(
                        f"Jacobian mismatch for output {number} with respect to input {i} "
                        f"({mode.name}, fast mode): its projection on random vectors is "
                        f"{slope:.10g} numerically and {claimed:.10g} analytically. With {entries} "
                        "entries it is too large to find the wrong one; take a smaller example."
                    )
                _check_in_full(subject, mode, check_dtypes, tolerance)
                return
            if abs(again[number, i] - claimed) > tolerance.nondet:
                raise GradcheckError(
                    _not_deterministic((number, i), mode.name, abs(again[number, i] - claimed))
                )


def _projections_agree(
    numerical: float, analytical: float, entries: int, tolerance: _Tolerance
) -> bool:
    """Whether no single entry of the Jacobian can be wrong by more than the full check allows.

    An entry that is wrong by d changes the projection by at least d/4 (the weights' smallest
    product). The projection itself grows like the root of the number of entries, so the relative
    part must shrink with it: if it does not, large Jacobians hide large errors.
    """
    allowed = tolerance.atol + tolerance.rtol * abs(numerical) / math.sqrt(max(entries, 1))
    return abs(analytical - numerical) <= allowed / 4


def _not_deterministic(pair: tuple[int, int], mode: str, difference: float) -> str:
    return (
        f"{mode.capitalize()} is not reentrant: the derivative of output {pair[0]} with respect to "
        f"input {pair[1]}, computed twice from the same graph, differs by {difference:.3g}. If "
        "that is meant to be so, say how much is allowed with nondet_tol."
    )


def _check_deterministic(
    pair: tuple[int, int], first: Tensor, second: Tensor, mode: str, allowed: float
) -> None:
    if first.numel():
        difference = (first - second).abs().max().item()
        if difference > allowed:
            raise GradcheckError(_not_deterministic(pair, mode, difference))


# Further rules of autograd ------------------------------------------------------------------------


class _NoGradient(weft.autograd.Function):
    """The identity; what flows back through it is no gradient at all."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> None:
        return None


def _check_undefined_gradients(subject: Subject) -> None:
    """An output whose gradient is undefined counts as one whose gradient is zero."""
    source = random.Random(21)
    inputs = list(subject.inputs.values())
    outputs = subject.recorded()
    weights = {
        number: random_weights(source, output).to(output.dtype)
        for number, output in outputs.items()
    }
    cases = [{number} for number in outputs]
    if len(outputs) > 1:
        cases.append(set(outputs))
    for undefined in cases:
        expected = weft.autograd.grad(
            list(outputs.values()),
            inputs,
            [
                weft.zeros_like(weights[number]) if number in undefined else weights[number]
                for number in outputs
            ],
            retain_graph=True,
            allow_unused=True,
        )
        blocked = [
            _NoGradient.apply(output) if number in undefined else output
            for number, output in outputs.items()
        ]
        names = ", ".join(f"output {number}" for number in sorted(undefined))
        try:
            found = weft.autograd.grad(
                blocked, inputs, list(weights.values()), retain_graph=True, allow_unused=True
            )
        except Exception as error:
            raise GradcheckError(
                f"Expected backward function to handle undefined output grads, but with no "
                f"gradient for {names} it raised {type(error).__name__}: {error}"
            ) from error
        for i, gradient, right in zip(subject.inputs, found, expected, strict=True):
            difference = _largest_difference(gradient, right)
            if difference > 1e-12 * (1 + _largest_difference(right, None)):
                raise GradcheckError(
                    f"Expected backward function to handle undefined output grads: with no "
                    f"gradient for {names}, the gradient for input {i} differs by {difference:.3g} "
                    "from what zeros give."
                )


def _largest_difference(one: Tensor | None, other: Tensor | None) -> float:
    """The largest absolute difference, where None stands for zeros."""
    if one is None or other is None:
        present = other if one is None else one
        if present is None or not present.numel():
            return 0.0
        return float(present.detach().abs().max().item())
    return float((one - other).detach().abs().max().item()) if one.numel() else 0.0


def _check_partial_tangents(subject: Subject) -> None:
    """An input without a tangent counts as one whose tangent is zero."""
    source = random.Random(22)
    forward = Forward(subject, check_dtypes=False)
    for i, tensor in subject.inputs.items():
        direction = random_weights(source, tensor).to(tensor.dtype)
        zeros = {j: weft.zeros_like(other, requires_grad=False)
                 for j, other in subject.inputs.items()}  # fmt: skip
        alone = forward.tangents({i: direction})
        among_zeros = forward.tangents({**zeros, i: direction})
        for number, tangent in alone.items():
            difference = _largest_difference(tangent, among_zeros[number])
            if difference > 1e-12 * (1 + _largest_difference(tangent, None)):
                raise GradcheckError(
                    f"Forward mode must treat inputs without a tangent as constants: the tangent "
                    f"of output {number} for input {i} changes by {difference:.3g} when the other "
                    "inputs are given tangents of zeros."
                )


def _check_batched_backward(subject: Subject) -> None:
    """Gradients of a batch of vectors at once are those of the vectors one by one."""
    source = random.Random(23)
    backward = Backward(subject, check_dtypes=False)
    inputs = list(subject.inputs.values())
    for number, output in backward.outputs.items():
        vectors = [random_weights(source, output).to(output.dtype) for _ in range(3)]
        try:
            batched = weft.autograd.grad(
                output,
                inputs,
                weft.stack(vectors),
                retain_graph=True,
                allow_unused=True,
                is_grads_batched=True,
            )
        except Exception as error:
            raise GradcheckError(
                f"While computing batched gradients of output {number}, backward raised "
                f"{type(error).__name__}: {error}"
            ) from error
        singles = [backward.product(number, vector) for vector in vectors]
        for i, batch in zip(subject.inputs, batched, strict=True):
            expected = weft.stack([single[i] for single in singles])
            found = None if batch is None else batch.to(weft.float64).reshape(expected.shape)
            _check_batch(found, expected, f"output {number} with respect to input {i}")


def _check_batched_forward(subject: Subject) -> None:
    """Tangents of a batch of directions at once are those of the directions one by one."""
    transforms: Any = importlib.import_module("weft.func")  # stands above weft.autograd
    source = random.Random(24)
    forward = Forward(subject, check_dtypes=False)
    for i, tensor in subject.inputs.items():
        directions = [random_weights(source, tensor).to(tensor.dtype) for _ in range(3)]

        def outputs_at(moved: Tensor, i: int = i) -> tuple[Tensor, ...]:
            arguments = (*subject.arguments[:i], moved, *subject.arguments[i + 1 :])
            outputs = as_tuple(subject.func(*arguments))
            return tuple(outputs[number] for number in subject.differentiable)

        def tangents(direction: Tensor, i: int = i, func: Any = outputs_at) -> tuple[Tensor, ...]:
            primal = subject.inputs[i].detach()
            found: tuple[Tensor, ...] = transforms.jvp(func, (primal,), (direction,))[1]
            return found

        try:
            batched = transforms.vmap(tangents)(weft.stack(directions))
        except Exception as error:
            raise GradcheckError(
                f"While computing batched tangents for input {i}, forward mode raised "
                f"{type(error).__name__}: {error}"
            ) from error
        singles = [forward.tangents({i: direction}) for direction in directions]
        for number, batch in zip(subject.differentiable, batched, strict=True):
            expected = weft.stack([single[number] for single in singles])
            found = batch.to(weft.float64).reshape(expected.shape)
            _check_batch(found, expected, f"output {number} with respect to input {i}")


def _check_batch(found: Tensor | None, expected: Tensor, what: str) -> None:
    difference = _largest_difference(found, expected)
    if difference > 1e-8 * (1 + _largest_difference(expected, None)):
        raise GradcheckError(
            f"The batched derivative of {what} differs by {difference:.3g} from the derivatives "
            "computed one by one."
        )


def _check_constant(subject: Subject, tolerance: _Tolerance) -> None:
    """No output requires grad: then none may depend on an input."""
    numbers = list(subject.shapes)
    for (number, i), jacobian in numerical_jacobians(subject, numbers, tolerance.eps).items():
        if jacobian.numel() and jacobian.abs().max().item() > tolerance.atol:
            raise GradcheckError(
                f"Numerical gradient for function expected to be zero, as no output requires grad, "
                f"but output {number} changes with input {i} (derivatives up to "
                f"{jacobian.abs().max().item():.6g}). The graph is cut somewhere: look for "
                "detach(), no_grad(), item() or a conversion."
            )


# Inputs -------------------------------------------------------------------------------------------


def _addresses(tensor: Tensor) -> set[int]:
    """Where the elements lie in memory."""
    offsets = [0]
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        offsets = [offset + k * stride for offset in offsets for k in range(length)]
    return {tensor.data_ptr() + offset * tensor.element_size() for offset in offsets}


def _may_overlap(tensor: Tensor) -> bool:
    """A quick test: what passes it has no two elements in one place."""
    span = 1
    for stride, length in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if length > 1:
            if stride < span:
                return True
            span += (length - 1) * stride
    return False


def _extent(tensor: Tensor) -> tuple[int, int]:
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.data_ptr()
    return start, start + (last + 1) * tensor.element_size()


def _check_memory(inputs: dict[int, Tensor]) -> None:
    """Each element must be movable without moving another."""
    tensors = {i: tensor for i, tensor in inputs.items() if tensor.numel()}
    for i, tensor in tensors.items():
        if _may_overlap(tensor) and len(_addresses(tensor)) < tensor.numel():
            raise RuntimeError(
                f"Input {i} has elements that share memory (shape {tuple(tensor.shape)}, strides "
                f"{tuple(tensor.stride())}, as expand() makes them): one cannot be moved without "
                "the others. Call contiguous() on the input before."
            )
    for (i, one), (j, other) in itertools.combinations(tensors.items(), 2):
        if one is other:
            continue
        (one_start, one_end), (other_start, other_end) = _extent(one), _extent(other)
        apart = one_end <= other_start or other_end <= one_start or one.device != other.device
        if not apart and not _addresses(one).isdisjoint(_addresses(other)):
            raise RuntimeError(
                f"Inputs {i} and {j} share memory: one cannot be moved without the other. Call "
                "clone() on one of them before."
            )


def _coarse_inputs(subject: Subject) -> str:
    coarse = [
        f"input {i} is {tensor.dtype}"
        for i, tensor in subject.inputs.items()
        if tensor.dtype != weft.float64
    ]
    if not coarse:
        return ""
    return f"{', '.join(coarse)}, not double precision.".capitalize()


def _check_inputs(arguments: tuple[Any, ...], eps: float) -> None:
    inputs = {
        i: argument
        for i, argument in enumerate(arguments)
        if isinstance(argument, Tensor) and argument.requires_grad
    }
    if not inputs:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True."
        )
    for i, tensor in inputs.items():
        if tensor.is_complex():
            raise NotImplementedError(
                f"gradcheck: input {i} is {tensor.dtype}. Complex functions are not supported; "
                "check a real function of their real and imaginary parts instead."
            )
        if tensor.dtype != weft.float64:
            resolution = weft.finfo(tensor.dtype).eps / eps
            warnings.warn(
                f"gradcheck: input {i} requires gradient and is {tensor.dtype}, not double "
                f"precision. With eps={eps} its differences carry relative errors of about "
                f"{resolution:.0e}, so the check will likely fail. Use double() inputs.",
                stacklevel=4,
            )
    _check_memory(inputs)


def _check(
    func: Callable[..., Any],
    inputs: Any,
    tolerance: _Tolerance,
    *,
    check_undefined_grad: bool,
    check_grad_dtypes: bool,
    check_batched_grad: bool,
    check_batched_forward_grad: bool,
    check_forward_ad: bool,
    check_backward_ad: bool,
    fast_mode: bool,
) -> None:
    arguments = as_tuple(inputs)
    _check_inputs(arguments, tolerance.eps)
    subject = Subject(func, arguments)
    for number, output in subject.outputs().items():
        if output.is_complex():
            raise NotImplementedError(
                f"gradcheck: output {number} is {output.dtype}. Complex functions are not "
                "supported; return the real and imaginary parts instead."
            )
    if not subject.differentiable:
        _check_constant(subject, tolerance)
        return
    check = _check_by_projection if fast_mode else _check_in_full
    if check_backward_ad:
        check(subject, Backward, check_grad_dtypes, tolerance)
        if check_batched_grad:
            _check_batched_backward(subject)
        if check_undefined_grad:
            _check_undefined_gradients(subject)
    if check_forward_ad:
        check(subject, Forward, check_grad_dtypes, tolerance)
        if check_batched_forward_grad:
            _check_batched_forward(subject)
        if check_undefined_grad:
            _check_partial_tangents(subject)


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Checks the derivatives of `func` at `inputs` against central finite differences.

    An entry of the Jacobian passes if it differs from the numerical one by at most
    `atol + rtol * |numerical|`. Inputs should be double precision and away from kinks; those that
    do not require grad are held fixed.

    Args:
        func: takes `inputs`, returns a tensor or a tuple of tensors.
        inputs: a tensor, or a tuple of tensors and other arguments. Elements must not share memory.
        eps: how far an input element is moved to either side.
        atol, rtol: absolute and relative tolerance.
        raise_exception: raise a `GradcheckError` on failure, with the reason; else return False.
        nondet_tol: by how much two backward runs over the same graph may differ.
        check_undefined_grad: check that an undefined gradient of an output counts as zeros.
        check_grad_dtypes: check that gradients have the dtypes of their inputs.
        check_batched_grad: check gradients of a batch of vectors at once (`is_grads_batched`).
        check_batched_forward_grad: the same in forward mode; needs `check_forward_ad`.
        check_forward_ad: check forward mode.
        check_backward_ad: check backward.
        fast_mode: compare random projections first, and single entries only where these differ.
        masked: accepted; it makes a difference to sparse tensors only.

    Returns:
        True if every check passes.
    """
    if not (check_forward_ad or check_backward_ad):
        raise ValueError("gradcheck: set check_forward_ad or check_backward_ad, or both.")
    if check_batched_grad and not check_backward_ad:
        raise ValueError("gradcheck: check_batched_grad=True needs check_backward_ad=True.")
    if check_batched_forward_grad and not check_forward_ad:
        raise ValueError("gradcheck: check_batched_forward_grad=True needs check_forward_ad=True.")
    try:
        _check(
            func,
            inputs,
            _Tolerance(eps, atol, rtol, nondet_tol),
            check_undefined_grad=check_undefined_grad,
            check_grad_dtypes=check_grad_dtypes,
            check_batched_grad=check_batched_grad,
            check_batched_forward_grad=check_batched_forward_grad,
            check_forward_ad=check_forward_ad,
            check_backward_ad=check_backward_ad,
            fast_mode=fast_mode,
        )
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _random_grad_outputs(
    func: Callable[..., Any], arguments: tuple[Any, ...], non_contiguous: bool
) -> tuple[Tensor, ...]:
    source = random.Random(25)
    grad_outputs = []
    for output in as_tuple(func(*arguments)):
        if isinstance(output, Tensor) and output.requires_grad:
            weights = random_weights(source, output).to(output.dtype)
            if non_contiguous:
                weights = weft.stack([weights, weights], dim=-1)[..., 0]
            grad_outputs.append(weights.detach().requires_grad_())
    return tuple(grad_outputs)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Checks second derivatives: `gradcheck` of the gradient of `func`.

    The gradient is a function of `inputs` and of `grad_outputs`, and is checked with respect to
    both, in this order. Its outputs are the gradients of those inputs that require grad.

    Args:
        grad_outputs: the vectors to multiply the Jacobian with, one per differentiable output;
            random ones if not given.
        gen_non_contig_grad_outputs: make the random ones non-contiguous.
        check_fwd_over_rev: differentiate the gradient in forward mode.
        check_rev_over_rev: differentiate the gradient by backward.

    The other arguments are those of `gradcheck`.
    """
    arguments = as_tuple(inputs)
    if grad_outputs is None:
        vectors = _random_grad_outputs(func, arguments, gen_non_contig_grad_outputs)
    else:
        vectors = as_tuple(grad_outputs)

    def gradient(*both: Any) -> tuple[Tensor, ...]:
        own, given = both[: len(arguments)], both[len(arguments) :]
        outputs = [
            output
            for output in as_tuple(func(*own))
            if isinstance(output, Tensor) and output.requires_grad
        ]
        differentiated = [
            tensor for tensor in own if isinstance(tensor, Tensor) and tensor.requires_grad
        ]
        if not outputs:
            raise GradcheckError(
                "No output requires grad, so there is no gradient to check: the graph is cut "
                "somewhere (detach(), no_grad(), item() or a conversion)."
            )
        gradients = weft.autograd.grad(
            outputs, differentiated, given, create_graph=True, allow_unused=True
        )
        return tuple(gradient for gradient in gradients if gradient is not None)

    return gradcheck(
        gradient,
        (*arguments, *vectors),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )

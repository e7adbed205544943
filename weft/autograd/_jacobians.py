"""The Jacobian of a function at a point: by finite differences, by backward, by forward mode.

`gradcheck` compares them. Everything is double precision here, whatever the function computes in.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import weft
from weft._core import Tensor

Index = tuple[int, ...]
# A Jacobian per pair of output and input, as (elements of the output, elements of the input).
Jacobians = dict[tuple[int, int], Tensor]


class GradcheckError(RuntimeError):
    """A derivative that does not agree with finite differences, or breaks a rule of autograd."""

    __module__ = "weft.autograd.gradcheck"


def as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def doubles(tensor: Tensor) -> Tensor:
    """A copy of the values, flat, in double precision, without history, on the CPU."""
    return tensor.detach().cpu().to(weft.float64).reshape(-1).clone()


def element_indices(tensor: Tensor) -> Iterator[Index]:
    return itertools.product(*(range(length) for length in tensor.shape))


def unravel(position: int, shape: tuple[int, ...]) -> Index:
    index = []
    for length in reversed(shape):
        position, remainder = divmod(position, length)
        index.append(remainder)
    return tuple(reversed(index))


def read(tensor: Tensor, index: Index) -> float:
    return float(tensor[index].item() if index else tensor.item())


def write(tensor: Tensor, index: Index, value: float) -> None:
    with weft.no_grad():
        if index:
            tensor[index] = value
        else:
            tensor.fill_(value)


def overwrite(tensor: Tensor, values: Tensor) -> None:
    with weft.no_grad():
        tensor.copy_(values)


def random_weights(source: random.Random, like: Tensor) -> Tensor:
    """Numbers of either sign and a size between 1/2 and 3/2: none of them hides an element, and
    errors of several elements have no reason to cancel."""
    weights = [
        math.copysign(0.5 + source.random(), source.random() - 0.5) for _ in range(like.numel())
    ]
    return weft.tensor(weights, dtype=weft.float64, device=like.device).reshape(like.shape)


class Subject:
    """The function under test with the inputs it is tested at.

    Inputs are moved where they are, not copied: the function may hold them by itself, as a module
    holds its parameters.
    """

    def __init__(self, func: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.func = func
        self.arguments = arguments
        self.inputs: dict[int, Tensor] = {
            i: argument
            for i, argument in enumerate(arguments)
            if isinstance(argument, Tensor) and argument.requires_grad
        }
        outputs = self.outputs()
        self.shapes = {number: tuple(output.shape) for number, output in outputs.items()}
        self.differentiable = [number for number, output in outputs.items() if output.requires_grad]

    def outputs(self) -> dict[int, Tensor]:
        """The tensors that the function returns, by their position."""
        results = as_tuple(self.func(*self.arguments))
        return {
            number: result
            for number, result in enumerate(results)
            if isinstance(result, Tensor) and (result.is_floating_point() or result.is_complex())
        }

    def recorded(self) -> dict[int, Tensor]:
        """The outputs that can be differentiated, from a fresh call."""
        outputs = self.outputs()
        for number in self.differentiable:
            if number not in outputs or not outputs[number].requires_grad:
                raise GradcheckError(
                    f"Output {number} required grad in one call and not in the next: the function "
                    "does not do the same each time it is called."
                )
        return {number: outputs[number] for number in self.differentiable}

    def values(self) -> dict[int, Tensor]:
        outputs = self.outputs()
        shapes = {number: tuple(output.shape) for number, output in outputs.items()}
        if shapes != self.shapes:
            raise GradcheckError(
                "The function returned outputs of other shapes when its inputs were moved a "
                f"little: {shapes} instead of {self.shapes}."
            )
        return {number: doubles(output) for number, output in outputs.items()}

    def noise(self) -> float:
        """By how much two calls with the same inputs differ at most."""
        first, second = self.values(), self.values()
        return max(
            (
                (first[number] - second[number]).abs().max().item()
                for number in first
                if first[number].numel()
            ),
            default=0.0,
        )


# Numerical derivatives ----------------------------------------------------------------------------


def values_beside(
    subject: Subject, i: int, index: Index, step: float
) -> tuple[dict[int, Tensor], float]:
    """The outputs with one input element moved by `step`, and by how much it really moved."""
    data = subject.inputs[i].detach()
    original = read(data, index)
    try:
        write(data, index, original + step)
        moved = read(data, index) - original
        return subject.values(), moved
    finally:
        write(data, index, original)


def check_moved(moved: float, subject: Subject, i: int, eps: float) -> None:
    if not moved:
        raise GradcheckError(
            f"eps={eps} is too small for input {i}, which is {subject.inputs[i].dtype}: adding it "
            "changes nothing. Use double precision inputs or a larger eps."
        )


def numerical_jacobians(subject: Subject, numbers: list[int], eps: float) -> Jacobians:
    """Central differences, element by element."""
    jacobians: Jacobians = {}
    for i, tensor in subject.inputs.items():
        columns: dict[int, list[Tensor]] = {number: [] for number in numbers}
        for index in element_indices(tensor):
            above, moved_up = values_beside(subject, i, index, eps)
            below, moved_down = values_beside(subject, i, index, -eps)
            moved = moved_up - moved_down
            check_moved(moved, subject, i, eps)
            for number in numbers:
                columns[number].append((above[number] - below[number]) / moved)
        for number in numbers:
            jacobians[number, i] = stack(columns[number], subject.shapes[number], 1)
    return jacobians


def stack(parts: list[Tensor], shape: tuple[int, ...], dim: int) -> Tensor:
    """Rows or columns to a matrix; `shape` is that of what they are made of."""
    if parts:
        return weft.stack(parts, dim=dim)
    elements = math.prod(shape)
    return weft.zeros((elements, 0) if dim else (0, elements), dtype=weft.float64)


class Projection(NamedTuple):
    """All elements of one input moved at once, along `direction` (per unit of the step)."""

    direction: Tensor
    slopes: dict[int, Tensor]


def numerical_projection(subject: Subject, i: int, eps: float, source: random.Random) -> Projection:
    tensor = subject.inputs[i]
    data = tensor.detach()
    original = data.clone()
    step = (random_weights(source, tensor) * eps).to(tensor.dtype)
    try:
        overwrite(data, original + step)
        above_at, above = data.clone().to(weft.float64), subject.values()
        overwrite(data, original - step)
        below_at, below = data.clone().to(weft.float64), subject.values()
    finally:
        overwrite(data, original)
    slopes = {number: (above[number] - below[number]) / (2 * eps) for number in above}
    return Projection((above_at - below_at).cpu() / (2 * eps), slopes)


# Analytical derivatives ---------------------------------------------------------------------------


class Backward:
    """Derivatives by backward, from one recorded call."""

    name = "backward mode"

    def __init__(self, subject: Subject, check_dtypes: bool) -> None:
        self.subject = subject
        self.outputs = subject.recorded()
        self.check_dtypes = check_dtypes

    def product(self, number: int, vector: Tensor) -> dict[int, Tensor]:
        """`vector` times the Jacobian of one output, per input."""
        inputs = self.subject.inputs
        gradients = weft.autograd.grad(
            self.outputs[number],
            list(inputs.values()),
            vector.to(self.outputs[number].dtype),
            retain_graph=True,
            allow_unused=True,
        )
        products = {}
        for (i, tensor), gradient in zip(inputs.items(), gradients, strict=True):
            if gradient is None:
                products[i] = weft.zeros(tensor.numel(), dtype=weft.float64)
                continue
            check_like(gradient, tensor, "The gradient", f"input {i}", self.check_dtypes)
            products[i] = doubles(gradient)
        return products

    def jacobians(self) -> Jacobians:
        jacobians: Jacobians = {}
        for number, output in self.outputs.items():
            rows: dict[int, list[Tensor]] = {i: [] for i in self.subject.inputs}
            for index in element_indices(output):
                one_hot = weft.zeros_like(output, requires_grad=False)
                write(one_hot, index, 1.0)
                for i, row in self.product(number, one_hot).items():
                    rows[i].append(row)
            for i, tensor in self.subject.inputs.items():
                jacobians[number, i] = stack(rows[i], tuple(tensor.shape), 0)
        return jacobians

    def projections(
        self, directions: dict[int, Tensor], weights: dict[int, Tensor]
    ) -> dict[tuple[int, int], float]:
        found = {}
        for number in self.outputs:
            products = self.product(number, weights[number])
            for i, product in products.items():
                found[number, i] = float((product * directions[i].reshape(-1)).sum().item())
        return found


class Forward:
    """Derivatives by forward mode."""

    name = "forward mode"

    def __init__(self, subject: Subject, check_dtypes: bool) -> None:
        self.subject = subject
        self.check_dtypes = check_dtypes

    def tangents(self, directions: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """How the outputs change when the inputs move in these directions."""
        subject = self.subject
        with weft.autograd.forward_ad.dual_level():
            outputs = as_tuple(subject.func(*with_tangents(subject, directions)))
            tangents = {}
            for number in subject.differentiable:
                tangent = weft.autograd.forward_ad.unpack_dual(outputs[number]).tangent
                if tangent is None:
                    tangent = weft.zeros_like(outputs[number], requires_grad=False)
                check_like(
                    tangent, outputs[number], "The tangent", f"output {number}", self.check_dtypes
                )
                tangents[number] = doubles(tangent)
        return tangents

    def jacobians(self) -> Jacobians:
        jacobians: Jacobians = {}
        for i, tensor in self.subject.inputs.items():
            columns: dict[int, list[Tensor]] = {n: [] for n in self.subject.differentiable}
            for index in element_indices(tensor):
                one_hot = weft.zeros_like(tensor, requires_grad=False)
                write(one_hot, index, 1.0)
                for number, column in self.tangents({i: one_hot}).items():
                    columns[number].append(column)
            for number, parts in columns.items():
                jacobians[number, i] = stack(parts, self.subject.shapes[number], 1)
        return jacobians

    def projections(
        self, directions: dict[int, Tensor], weights: dict[int, Tensor]
    ) -> dict[tuple[int, int], float]:
        found = {}
        for i, direction in directions.items():
            tangents = self.tangents({i: direction.to(self.subject.inputs[i])})
            for number, tangent in tangents.items():
                found[number, i] = float((doubles(weights[number]) * tangent).sum().item())
        return found


def with_tangents(subject: Subject, directions: Mapping[int, Tensor]) -> list[Any]:
    """The arguments to call the function with, in forward mode."""
    arguments: list[Any] = list(subject.arguments)
    for i, tensor in subject.inputs.items():
        primal = tensor.detach().requires_grad_()
        arguments[i] = (
            weft.autograd.forward_ad.make_dual(primal, directions[i]) if i in directions else primal
        )
    return arguments


def check_like(found: Tensor, like: Tensor, what: str, of: str, check_dtypes: bool) -> None:
    if found.shape != like.shape:
        raise GradcheckError(
            f"{what} for {of} has incorrect size {tuple(found.shape)}: {of} has "
            f"{tuple(like.shape)}."
        )
    if check_dtypes and found.dtype != like.dtype:
        raise GradcheckError(
            f"{what} for {of} has dtype mismatch: {found.dtype}, but {of} is {like.dtype}."
        )

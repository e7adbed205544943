"""What a line of the operation table is made of.

A row names an operation and its calls. Arguments stand as `Floats` (random, in a domain), `Points`
(exact values) and `Whole` (indices, masks) until a test asks for tensors, so the table itself needs
nothing of weft.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from ._target import weft

LAYOUTS = ("plain", "transposed", "stepped", "offset")


@dataclasses.dataclass(frozen=True)
class Floats:
    """Random numbers of a domain, no two closer than a finite difference can tell apart."""

    shape: tuple[int, ...] = (2, 3)
    low: float = -2.0
    high: float = 2.0
    layout: str = "plain"
    avoid: tuple[float, ...] = ()
    gradient: bool = True

    def tensor(self, source: random.Random, dtype: Any) -> Any:
        count = math.prod(self.shape)
        step = (self.high - self.low) / max(count, 1)
        # One number in each of `count` cells: distinct, and away from the cells' borders.
        values = [self.low + (i + source.uniform(0.2, 0.8)) * step for i in range(count)]
        source.shuffle(values)
        for value in self.avoid:
            values = [v + 0.05 if abs(v - value) < 0.02 else v for v in values]
        return laid_out(values, self.shape, self.layout, dtype)


@dataclasses.dataclass(frozen=True)
class Points:
    """Exact values, flat or nested."""

    values: Any
    gradient: bool = True

    def tensor(self, source: random.Random, dtype: Any) -> Any:
        return weft.tensor(self.values, dtype=dtype)


@dataclasses.dataclass(frozen=True)
class Whole:
    """Integers (or booleans): indices, masks, labels. Never differentiated."""

    values: Any
    dtype: str = "int64"

    def tensor(self, source: random.Random, dtype: Any) -> Any:
        return weft.tensor(self.values, dtype=getattr(weft, self.dtype))


def laid_out(values: list[float], shape: tuple[int, ...], layout: str, dtype: Any) -> Any:
    plain = weft.tensor(values, dtype=dtype).reshape(shape)
    if layout == "transposed" and len(shape) > 1:
        return plain.transpose(0, -1).clone().contiguous().transpose(0, -1)
    if layout == "stepped" and shape:
        return weft.stack([plain, plain], -1)[..., 0]
    if layout == "offset" and shape:
        return weft.cat([plain, plain], 0)[shape[0] :]
    return plain


@dataclasses.dataclass(frozen=True)
class Call:
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        parts = [*map(str, self.args), *(f"{k}={v}" for k, v in self.kwargs.items())]
        return f"({', '.join(parts)})"


def call(*args: Any, **kwargs: Any) -> Call:
    return Call(args, kwargs)


@dataclasses.dataclass(frozen=True)
class Kink:
    """Where no derivative exists, the convention: gradients of the sum for each input."""

    args: tuple[Any, ...]
    expected: tuple[Any, ...]
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)


def kink(*args: Any, gives: Any, **kwargs: Any) -> Kink:
    """`gives` for one input, or a tuple for several; float arguments are the inputs."""
    return Kink(args, gives if isinstance(gives, tuple) else (gives,), kwargs)


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    calls: tuple[Call, ...]
    kinks: tuple[Kink, ...] = ()
    function: Callable[..., Any] | None = None
    # Finite differences of large values carry large errors.
    tolerance: float = 1e-5

    def resolve(self) -> Callable[..., Any]:
        """The operation: given, or found by its name as function, functional or method."""
        if self.function is not None:
            return self.function
        owner: Any = weft
        for part in self.name.split("."):
            owner = getattr(owner, part, None)
        return owner if owner is not None else getattr(weft.Tensor, self.name)


def row(
    name: str,
    *calls: Call | Sequence[Call],
    kinks: Sequence[Kink] = (),
    function: Callable[..., Any] | None = None,
    tolerance: float = 1e-5,
) -> Row:
    flat: list[Call] = []
    for item in calls:
        flat += [item] if isinstance(item, Call) else list(item)
    return Row(name, tuple(flat), tuple(kinks), function, tolerance)


def tensors_of(value: Any, source: random.Random, dtype: Any, found: list[Any]) -> Any:
    """Arguments with tensors in the place of their descriptions; inputs are added to `found`."""
    if isinstance(value, (Floats, Points, Whole)):
        tensor = value.tensor(source, dtype)
        if not isinstance(value, Whole) and value.gradient:
            # Detached, so that a strided tensor is a leaf of its own.
            tensor = tensor.detach().requires_grad_()
            found.append(tensor)
        return tensor
    if isinstance(value, (list, tuple)):
        return type(value)(tensors_of(item, source, dtype, found) for item in value)
    return value


# -- the samples most operations share ------------------------------------------------------


def unary(
    low: float = -2.0, high: float = 2.0, *points: float, avoid: Sequence[float] = ()
) -> list[Call]:
    """All layouts, 0-dim, empty, and exact points where a formula may be special."""
    skip = tuple(avoid)
    shapes: list[tuple[int, ...]] = [(), (0,), (2, 0), (1,)]
    calls = [call(Floats((2, 3), low, high, layout, skip)) for layout in LAYOUTS]
    calls += [call(Floats(shape, low, high, avoid=skip)) for shape in shapes]
    return calls + ([call(Points(list(points)))] if points else [])


def binary(
    first: tuple[float, float] = (-2.0, 2.0), second: tuple[float, float] = (-2.0, 2.0)
) -> list[Call]:
    """Equal shapes in several layouts, broadcasting both ways, 0-dim, empty, the same twice."""

    def pair(one: tuple[int, ...], other: tuple[int, ...], layout: str = "plain") -> Call:
        return call(Floats(one, *first, layout), Floats(other, *second))

    return [
        pair((2, 3), (2, 3)),
        pair((2, 3), (2, 3), "transposed"),
        pair((2, 3), (3,), "stepped"),
        pair((3,), (2, 3)),
        pair((2, 1), (1, 3), "offset"),
        pair((), (2,)),
        pair((2,), ()),
        pair((), ()),
        pair((0,), (1,)),
        pair((2, 0), ()),
    ]


def reduction(low: float = -2.0, high: float = 2.0, *, empty: bool = True) -> list[Call]:
    """Over everything, over each and several dims, kept or not, strided, empty, 0-dim."""
    calls = [
        call(Floats((2, 3), low, high)),
        call(Floats((2, 3), low, high), 0),
        call(Floats((2, 3), low, high, "transposed"), -1, True),
        call(Floats((2, 3, 2), low, high, "stepped"), 1),
        call(Floats((), low, high)),
        call(Floats((1, 3), low, high), 0),
    ]
    return [*calls, call(Floats((0, 3), low, high), 1)] if empty else calls


def several_dims(low: float = -2.0, high: float = 2.0) -> list[Call]:
    return [
        call(Floats((2, 3, 2), low, high), (0, 2)),
        call(Floats((2, 3, 2), low, high), (-1, 1), True),
        call(Floats((2, 3), low, high), dim=(0, 1)),
    ]


def along(low: float = -2.0, high: float = 2.0) -> list[Call]:
    """Operations along one dim that keep the shape."""
    return [
        call(Floats((2, 3), low, high), 0),
        call(Floats((2, 3), low, high, "transposed"), 1),
        call(Floats((2, 3, 2), low, high, "stepped"), -2),
        call(Floats((), low, high), 0),
        call(Floats((0, 3), low, high), 0),
        call(Floats((2, 1), low, high), 1),
    ]


def matrices(*shapes: tuple[tuple[int, ...], ...]) -> list[Call]:
    """One call per tuple of shapes, plain and strided."""
    return [
        call(*(Floats(shape, -1.0, 1.0, layout) for shape in group))
        for group in shapes
        for layout in ("plain", "transposed")
    ]

"""Operations with a right and a wrong derivative each: `gradcheck` must pass one, fail the other.

The wrong ones are of the kinds that people write: a sign, a factor, a missing term, the wrong axis,
the wrong reduction, the wrong thing saved, or one element of many.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests._target import weft

# Gets the gradient, the inputs and the output; returns one gradient per input.
Backward = Callable[[Any, tuple[Any, ...], Any], Any]


@dataclass(frozen=True)
class Planted:
    kind: str
    name: str
    shapes: tuple[tuple[int, ...], ...]
    forward: Callable[..., Any]
    right: Backward
    wrong: Backward

    def inputs(self) -> tuple[Any, ...]:
        """Positive numbers without pattern, and with no two alike."""
        made = []
        for position, shape in enumerate(self.shapes):
            count = math.prod(shape)
            values = [0.3 + (0.618034 * (k + 1) + 0.27 * position) % 1 for k in range(count)]
            tensor = weft.tensor(values, dtype=weft.float64).reshape(shape)
            made.append(tensor.requires_grad_())
        return tuple(made)

    def function(self, backward: Backward) -> Callable[..., Any]:
        forward_of_op = self.forward

        class Operation(weft.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> Any:
                output = forward_of_op(*inputs)
                ctx.save_for_backward(*inputs, output)
                return output

            @staticmethod
            def backward(ctx: Any, gradient: Any) -> Any:
                *inputs, output = ctx.saved_tensors
                return backward(gradient, tuple(inputs), output)

        return Operation.apply


PLANTED: list[Planted] = []


def plant(
    kind: str,
    name: str,
    shapes: tuple[tuple[int, ...], ...],
    forward: Callable[..., Any],
    right: Backward,
    wrong: Backward,
) -> None:
    PLANTED.append(Planted(kind, name, shapes, forward, right, wrong))


V, M, P = (5,), (3, 4), (3, 3)


def only_at(condition: Any, one: Any, other: Any) -> Any:
    return weft.where(condition, one, other)


# Sign.
plant("sign", "neg", (V,), lambda x: -x, lambda g, i, y: -g, lambda g, i, y: g)
plant("sign", "sub", (V, V), lambda a, b: a - b,
      lambda g, i, y: (g, -g), lambda g, i, y: (g, g))  # fmt: skip
plant("sign", "cos", (V,), lambda x: x.cos(),
      lambda g, i, y: -g * i[0].sin(), lambda g, i, y: g * i[0].sin())  # fmt: skip
plant("sign", "div", (V, V), lambda a, b: a / b,
      lambda g, i, y: (g / i[1], -g * y / i[1]),
      lambda g, i, y: (g / i[1], g * y / i[1]))  # fmt: skip
plant("sign", "reciprocal", (M,), lambda x: 1 / x,
      lambda g, i, y: -g * y * y, lambda g, i, y: g * y * y)  # fmt: skip
plant("sign", "softplus of -x", (V,), lambda x: (1 + (-x).exp()).log(),
      lambda g, i, y: -g * (-i[0]).sigmoid(), lambda g, i, y: g * (-i[0]).sigmoid())  # fmt: skip

# Factor.
plant("factor", "square", (V,), lambda x: x * x,
      lambda g, i, y: 2 * g * i[0], lambda g, i, y: g * i[0])  # fmt: skip
plant("factor", "sqrt", (V,), lambda x: x.sqrt(),
      lambda g, i, y: g / (2 * y), lambda g, i, y: g / y)  # fmt: skip
plant("factor", "mean", (M,), lambda x: x.mean(),
      lambda g, i, y: (g / i[0].numel()).expand(i[0].shape),
      lambda g, i, y: g.expand(i[0].shape))  # fmt: skip
plant("factor", "exp2", (V,), lambda x: (x * math.log(2)).exp(),
      lambda g, i, y: g * y * math.log(2), lambda g, i, y: g * y)  # fmt: skip
plant("factor", "variance with n for n - 1", (V,), lambda x: x.var(),
      lambda g, i, y: g * 2 * (i[0] - i[0].mean()) / (i[0].numel() - 1),
      lambda g, i, y: g * 2 * (i[0] - i[0].mean()) / i[0].numel())  # fmt: skip
plant("factor", "mean squared error without 2", (V, V), lambda a, b: ((a - b) * (a - b)).mean(),
      lambda g, i, y: (2 * g * (i[0] - i[1]) / 5, -2 * g * (i[0] - i[1]) / 5),
      lambda g, i, y: (g * (i[0] - i[1]) / 5, -g * (i[0] - i[1]) / 5))  # fmt: skip
plant("factor", "half a percent", (M,), lambda x: x.exp(),
      lambda g, i, y: g * y, lambda g, i, y: 1.005 * g * y)  # fmt: skip
plant("factor", "cube", (P,), lambda x: x * x * x,
      lambda g, i, y: 3 * g * i[0] * i[0], lambda g, i, y: 2 * g * i[0] * i[0])  # fmt: skip

# Missing term.
plant("missing term", "x sin x", (V,), lambda x: x * x.sin(),
      lambda g, i, y: g * (i[0].sin() + i[0] * i[0].cos()),
      lambda g, i, y: g * i[0].sin())  # fmt: skip
plant("missing term", "softmax without the sum", (M,), lambda x: x.softmax(1),
      lambda g, i, y: y * (g - (g * y).sum(1, keepdim=True)), lambda g, i, y: y * g)  # fmt: skip
plant("missing term", "log softmax without the sum", (M,), lambda x: x.log_softmax(1),
      lambda g, i, y: g - y.exp() * g.sum(1, keepdim=True), lambda g, i, y: g)  # fmt: skip
plant("missing term", "exponent of a power", (V, V), lambda a, b: a**b,
      lambda g, i, y: (g * i[1] * i[0] ** (i[1] - 1), g * y * i[0].log()),
      lambda g, i, y: (g * i[1] * i[0] ** (i[1] - 1), None))  # fmt: skip
plant("missing term", "silu", (V,), lambda x: x * x.sigmoid(),
      lambda g, i, y: g * i[0].sigmoid() * (1 + i[0] * (1 - i[0].sigmoid())),
      lambda g, i, y: g * i[0].sigmoid())  # fmt: skip
plant("missing term", "centring without the mean", (M,), lambda x: x - x.mean(0),
      lambda g, i, y: g - g.mean(0), lambda g, i, y: g)  # fmt: skip
plant("missing term", "unit vector without the projection", (V,),
      lambda x: x / (x * x).sum().sqrt(),
      lambda g, i, y: (g - y * (g * y).sum()) / (i[0] * i[0]).sum().sqrt(),
      lambda g, i, y: g / (i[0] * i[0]).sum().sqrt())  # fmt: skip
plant("missing term", "two uses of one input", (P,), lambda x: x @ x,
      lambda g, i, y: g @ i[0].t() + i[0].t() @ g, lambda g, i, y: g @ i[0].t())  # fmt: skip

# Wrong axis.
plant("axis", "matmul of squares", (P, P), lambda a, b: a @ b,
      lambda g, i, y: (g @ i[1].t(), i[0].t() @ g),
      lambda g, i, y: (g @ i[1], i[0].t() @ g))  # fmt: skip
plant("axis", "transpose", (P,), lambda x: x.t().clone(),
      lambda g, i, y: g.t(), lambda g, i, y: g)  # fmt: skip
plant("axis", "softmax over the other", (P,), lambda x: x.softmax(1),
      lambda g, i, y: y * (g - (g * y).sum(1, keepdim=True)),
      lambda g, i, y: y * (g - (g * y).sum(0, keepdim=True)))  # fmt: skip
plant("axis", "cumulative sum not reversed", (V,), lambda x: x.cumsum(0),
      lambda g, i, y: g.flip(0).cumsum(0).flip(0), lambda g, i, y: g.cumsum(0))  # fmt: skip
plant("axis", "flip", (V,), lambda x: x.flip(0),
      lambda g, i, y: g.flip(0), lambda g, i, y: g)  # fmt: skip
plant("axis", "sum over the other", (P,), lambda x: (x * x).sum(1),
      lambda g, i, y: 2 * i[0] * g.unsqueeze(1), lambda g, i, y: 2 * i[0] * g)  # fmt: skip
plant("axis", "outer product", (V, V), lambda a, b: a.unsqueeze(1) * b,
      lambda g, i, y: (g @ i[1], g.t() @ i[0]),
      lambda g, i, y: (g.t() @ i[1], g @ i[0]))  # fmt: skip

# Wrong reduction.
plant("reduction", "bias summed over the other axis", (P, (3,)), lambda x, b: x + b,
      lambda g, i, y: (g, g.sum(0)), lambda g, i, y: (g, g.sum(1)))  # fmt: skip
plant("reduction", "bias averaged", (M, (4,)), lambda x, b: x + b,
      lambda g, i, y: (g, g.sum(0)), lambda g, i, y: (g, g.mean(0)))  # fmt: skip
plant("reduction", "expand keeps one row", ((4,),), lambda x: x.expand(3, 4).clone(),
      lambda g, i, y: g.sum(0), lambda g, i, y: g[0])  # fmt: skip
plant("reduction", "maximum gives to all", (V,), lambda x: x.max(),
      lambda g, i, y: g * (i[0] == y).to(weft.float64), lambda g, i, y: g.expand(5))  # fmt: skip
plant("reduction", "product of all but one", (V,), lambda x: x.prod(),
      lambda g, i, y: g * y / i[0], lambda g, i, y: (g * y).expand(5))  # fmt: skip
plant("reduction", "a repeated index counted once", (V,),
      lambda x: weft.stack([x[0], x[0], x[3]]),
      lambda g, i, y: weft.stack([g[0] + g[1], g[0] * 0, g[0] * 0, g[2], g[0] * 0]),
      lambda g, i, y: weft.stack([g[1], g[0] * 0, g[0] * 0, g[2], g[0] * 0]))  # fmt: skip

# Wrong thing saved.
plant("saved", "tanh from the input", (V,), lambda x: x.tanh(),
      lambda g, i, y: g * (1 - y * y), lambda g, i, y: g * (1 - i[0] * i[0]))  # fmt: skip
plant("saved", "sigmoid from the input", (M,), lambda x: x.sigmoid(),
      lambda g, i, y: g * y * (1 - y), lambda g, i, y: g * i[0] * (1 - i[0]))  # fmt: skip
plant("saved", "exp from the input", (V,), lambda x: x.exp(),
      lambda g, i, y: g * y, lambda g, i, y: g * i[0])  # fmt: skip
plant("saved", "factors swapped", (V, V), lambda a, b: a * b,
      lambda g, i, y: (g * i[1], g * i[0]), lambda g, i, y: (g * i[0], g * i[1]))  # fmt: skip
plant("saved", "the mask inverted", (V,), lambda x: x.clamp(max=0.8),
      lambda g, i, y: g * (i[0] < 0.8).to(weft.float64),
      lambda g, i, y: g * (i[0] > 0.8).to(weft.float64))  # fmt: skip
plant("saved", "branches swapped", (V, V), lambda a, b: only_at(a > b, a, b),
      lambda g, i, y: (only_at(i[0] > i[1], g, g * 0), only_at(i[0] > i[1], g * 0, g)),
      lambda g, i, y: (only_at(i[0] > i[1], g * 0, g), only_at(i[0] > i[1], g, g * 0)))  # fmt: skip


# One element of many: what a projection with too wide a tolerance lets through.
def spoiled(gradient: Any, row: int, column: int, by: float) -> Any:
    gradient = gradient.clone()
    gradient[row, column] = gradient[row, column] * by
    return gradient


plant("one element", "the last of a matrix", ((12, 12),), lambda x: x * x,
      lambda g, i, y: 2 * g * i[0],
      lambda g, i, y: spoiled(2 * g * i[0], -1, -1, 1.05))  # fmt: skip
plant("one element", "the first column is zero", ((8, 12),), lambda x: x.sin(),
      lambda g, i, y: g * i[0].cos(),
      lambda g, i, y: spoiled(g * i[0].cos(), 0, 0, 0.0))  # fmt: skip

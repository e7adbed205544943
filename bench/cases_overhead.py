"""What one small operation costs: the heart of the comparison.

Each case is a loop over a line as a user would write it. Tensors are so small that arithmetic
costs nothing; what is measured is everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat

from bench.case import Case, Framework, Workload

CHAIN_STEPS = 100
VARIANT_SHARE = 0.7  # of the plain case's bar, for other dtypes and kinds of argument


@dataclass(frozen=True)
class Form:
    """The kind of arguments that a base case runs with."""

    name: str
    title: str
    dtype: str = "float32"
    second: str = "plain"
    share: float = VARIANT_SHARE

    def first_argument(self, torch: Framework, value: float) -> Framework:
        if self.dtype == "float32":
            return torch.full((4,), value)
        return torch.full((4,), self.number(value), dtype=getattr(torch, self.dtype))

    def second_argument(self, torch: Framework, value: float) -> Framework:
        number = self.number(value)
        if self.second == "broadcast":
            return torch.full((1,), number)
        if self.second == "0-dim":
            return torch.tensor(number)
        if self.second == "strided":
            return torch.full((8,), number)[::2].detach()
        return self.first_argument(torch, value)

    def number(self, value: float) -> float:
        return 3 if self.dtype == "int64" else value


PLAIN = Form("plain", "", share=1.0)
FLOAT64 = Form("float64", "float64", dtype="float64")
INT64 = Form("int64", "int64", dtype="int64")
BROADCAST = Form("broadcast", "a broadcast argument", second="broadcast")
ZERO_DIM = Form("0-dim", "a 0-dim argument", second="0-dim")
STRIDED = Form("strided", "a strided argument", second="strided")
FLOATING_FORMS = (PLAIN, FLOAT64, BROADCAST, ZERO_DIM, STRIDED)


def cases() -> list[Case]:
    """All cases of this file."""
    return [*_base_cases(), *_single_operations(), *_creation_and_iteration(), *_weight_reuse()]


# --- the four base cases, in every form -----------------------------------------------------------


def add(torch: Framework, form: Form) -> Workload:
    a = form.first_argument(torch, 0.5)
    b = form.second_argument(torch, 0.9)

    def loop(n: int) -> None:
        for _ in repeat(None, n):
            a + b

    return Workload(loop)


def add_recorded(torch: Framework, form: Form) -> Workload:
    a = form.first_argument(torch, 0.5).requires_grad_()
    b = form.second_argument(torch, 0.9)

    def loop(n: int) -> None:
        for _ in repeat(None, n):
            a + b

    return Workload(loop)


def chain(torch: Framework, form: Form, learn_b: bool) -> Workload:
    # 0.9 keeps the values near 9 and the gradients far from denormal numbers.
    x = form.first_argument(torch, 0.5).requires_grad_()
    b = form.second_argument(torch, 0.9)
    if learn_b:
        b.requires_grad_()

    def loop(n: int) -> None:
        for _ in repeat(None, n):
            y = x
            for _ in repeat(None, CHAIN_STEPS):
                y = y * b + b
            y.sum().backward()

    return Workload(loop, per=2 * CHAIN_STEPS, inner_turns=CHAIN_STEPS)


def scalar_chain(torch: Framework, form: Form) -> Workload:
    x = form.first_argument(torch, 0.5).requires_grad_()
    factor: Framework = 1.01
    shift: Framework = 0.1
    if form.second != "plain":
        factor = form.second_argument(torch, factor)
        shift = form.second_argument(torch, shift)
    return _scalar_chain_from(x, factor, shift)


def scalar_chain_of_0_dim(torch: Framework) -> Workload:
    return _scalar_chain_from(torch.tensor(0.5).requires_grad_(), 1.01, 0.1)


def _scalar_chain_from(x: Framework, factor: Framework, shift: Framework) -> Workload:
    def loop(n: int) -> None:
        for _ in repeat(None, n):
            y = x
            for _ in repeat(None, CHAIN_STEPS):
                y = (y * factor).tanh() + shift
            y.sum().backward()

    return Workload(loop, per=3 * CHAIN_STEPS, inner_turns=CHAIN_STEPS)


def smallest_backward(torch: Framework, form: Form) -> Workload:
    a = form.first_argument(torch, 0.5).requires_grad_()
    b = form.second_argument(torch, 0.9).requires_grad_()

    def loop(n: int) -> None:
        for _ in repeat(None, n):
            (a * b).sum().backward()
            a.grad = b.grad = None

    return Workload(loop)


def _base_cases() -> list[Case]:
    found: list[Case] = []

    def put(
        id: str,
        title: str,
        bar: float,
        forms: tuple[Form, ...],
        build: Callable[[Framework, Form], Workload],
    ) -> None:
        found.extend(
            Case(
                id=id if form is PLAIN else f"{id}/{form.name}",
                title=title if form is PLAIN else f"{title}, {form.title}",
                build=lambda torch, form=form: build(torch, form),  # type: ignore[misc]
                bar=bar * form.share,
                floor=form is PLAIN,
            )
            for form in forms
        )

    put("add", "a + b, 4 floats, no gradient", 10, (*FLOATING_FORMS, INT64), add)
    put(
        "chain",
        "y * b + b, fwd+bwd per op",
        15,
        FLOATING_FORMS,
        lambda torch, form: chain(torch, form, learn_b=False),
    )
    put(
        "chain-learn-b",
        "y * b + b, gradient for b too, fwd+bwd per op",
        15,
        FLOATING_FORMS,
        lambda torch, form: chain(torch, form, learn_b=True),
    )
    put("scalar-chain", "(y * 1.01).tanh() + 0.1, fwd+bwd per op", 15, FLOATING_FORMS, scalar_chain)
    found.append(
        Case(
            "scalar-chain/0-dim-y",
            "(y * 1.01).tanh() + 0.1, fwd+bwd per op, y of 0 dimensions",
            scalar_chain_of_0_dim,
            bar=15 * VARIANT_SHARE,
        )
    )
    put("smallest-backward", "(a * b).sum().backward()", 15, FLOATING_FORMS, smallest_backward)
    found.append(
        Case(
            "add-recorded",
            "a + b, 4 floats, recorded",
            lambda torch: add_recorded(torch, PLAIN),
            floor=True,
        )
    )
    return found


# --- single small operations ----------------------------------------------------------------------


def matmul_recorded(torch: Framework) -> Workload:
    a = torch.full((2, 4), 0.5)
    w = torch.full((4, 4), 0.25).requires_grad_()

    def loop(n: int) -> None:
        for _ in repeat(None, n):
            a @ w

    return Workload(loop)


def select_one(a: Framework) -> Workload:
    i = 2

    def loop(n: int) -> None:
        for _ in repeat(None, n):
            a[i]

    return Workload(loop)


def select_slice(a: Framework) -> Workload:
    def loop(n: int) -> None:
        for _ in repeat(None, n):
            a[1:3]

    return Workload(loop)


def view(a: Framework) -> Workload:
    def loop(n: int) -> None:
        for _ in repeat(None, n):
            a.view(2, 8)

    return Workload(loop)


def transpose(a: Framework) -> Workload:
    def loop(n: int) -> None:
        for _ in repeat(None, n):
            a.t()

    return Workload(loop)


def sum_last(a: Framework) -> Workload:
    def loop(n: int) -> None:
        for _ in repeat(None, n):
            a.sum(dim=-1, keepdim=True)

    return Workload(loop)


def cat_two(torch: Framework, recorded: bool) -> Workload:
    a = torch.full((4,), 0.5).requires_grad_(recorded)
    b = torch.full((4,), 0.9)

    def loop(n: int) -> None:
        for _ in repeat(None, n):
            torch.cat([a, b])

    return Workload(loop)


def where(torch: Framework, recorded: bool) -> Workload:
    a = torch.full((4,), 0.5).requires_grad_(recorded)
    b = torch.full((4,), 0.9)
    condition = torch.tensor([True, False, True, False])

    def loop(n: int) -> None:
        for _ in repeat(None, n):
            torch.where(condition, a, b)

    return Workload(loop)


def _single_operations() -> list[Case]:
    found = [Case("matmul-recorded", "2x4 @ 4x4, recorded", matmul_recorded, bar=10)]
    on_one: tuple[tuple[str, str, Callable[[Framework], Workload]], ...] = (
        ("index", "a[i]", select_one),
        ("slice", "a[1:3]", select_slice),
        ("view", "a.view(2, 8)", view),
        ("t", "a.t()", transpose),
        ("sum-keepdim", "a.sum(dim=-1, keepdim=True)", sum_last),
    )
    on_module: tuple[tuple[str, str, Callable[[Framework, bool], Workload]], ...] = (
        ("cat", "cat([a, b])", cat_two),
        ("where", "where(c, a, b)", where),
    )
    for recorded in (False, True):
        suffix, words = ("/recorded", ", recorded") if recorded else ("", "")
        for name, title, of_tensor in on_one:
            found.append(
                Case(
                    name + suffix,
                    title + words,
                    lambda torch, build=of_tensor, recorded=recorded: (  # type: ignore[misc]
                        build(torch.full((4, 4), 0.5).requires_grad_(recorded))
                    ),
                    bar=6,
                )
            )
        for name, title, of_module in on_module:
            found.append(
                Case(
                    name + suffix,
                    title + words,
                    lambda torch, build=of_module, recorded=recorded: (  # type: ignore[misc]
                        build(torch, recorded)
                    ),
                    bar=6,
                )
            )
    return found


# --- going in and out of Python's own values ------------------------------------------------------


def iterate(torch: Framework) -> Workload:
    a = torch.full((1000,), 0.5)

    def loop(n: int) -> None:
        for _ in repeat(None, n):
            for _ in a:
                pass

    return Workload(loop, per=1000, inner_turns=1000)


def from_list(torch: Framework, length: int) -> Workload:
    numbers = [0.5 + i for i in range(length)]

    def loop(n: int) -> None:
        for _ in repeat(None, n):
            torch.tensor(numbers)

    return Workload(loop)


def _creation_and_iteration() -> list[Case]:
    return [
        Case("iterate", "iteration over 1,000 elements, per element", iterate, bar=4),
        Case("tensor/4", "tensor([...]) of 4 numbers", lambda torch: from_list(torch, 4), bar=4),
        Case(
            "tensor/10000",
            "tensor([...]) of 10,000 numbers",
            lambda torch: from_list(torch, 10_000),
            bar=4,
        ),
    ]


# --- one weight used a thousand times -------------------------------------------------------------

WEIGHT_SIZE = 128
WEIGHT_USES = 1000


def reuse_backward(torch: Framework) -> Workload:
    """Backward through h = h @ w, a thousand times one w: its gradient is added up in place."""
    # The identity keeps all values of a chain this long as they are.
    w = torch.eye(WEIGHT_SIZE).requires_grad_()
    x = torch.full((1, WEIGHT_SIZE), 0.5).requires_grad_()
    last: list[Framework] = []

    def forward() -> None:
        w.grad = x.grad = None
        h = x
        for _ in repeat(None, WEIGHT_USES):
            h = h @ w
        last[:] = [h.sum()]

    def backward(n: int) -> None:
        last.pop().backward()

    return Workload(backward, per=WEIGHT_USES, before=forward)


def reuse_products(torch: Framework) -> Workload:
    """The products of that backward alone, each adding into the one gradient of the weight."""
    w_t = torch.eye(WEIGHT_SIZE).t()
    h_t = torch.full((1, WEIGHT_SIZE), 0.5).t()
    start = torch.full((1, WEIGHT_SIZE), 1.0)
    w_grad = torch.zeros((WEIGHT_SIZE, WEIGHT_SIZE))

    def products(n: int) -> None:
        gradient = start
        for _ in repeat(None, WEIGHT_USES):
            w_grad.addmm_(h_t, gradient)
            gradient = gradient @ w_t

    return Workload(products, per=WEIGHT_USES, inner_turns=WEIGHT_USES, before=w_grad.zero_)


REUSE_BACKWARD = "weight-reuse/backward"
REUSE_PRODUCTS = "weight-reuse/products"
REUSE_LIMIT = 1.2


def _weight_reuse() -> list[Case]:
    return [
        Case(
            REUSE_BACKWARD, "weight used 1,000 times (128x128): backward, per use", reuse_backward
        ),
        Case(
            REUSE_PRODUCTS, "weight used 1,000 times: its products alone, per use", reuse_products
        ),
    ]

"""Generated programs of views, in-place writes and backward: weft does what PyTorch does.

A program is a list of instructions over numbered tensors. Both modules run it; after each
instruction the outcome (a result or a refusal) and at the end all values, versions, view relations,
`grad_fn` names and gradients must agree.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from .._target import weft
from .bridge import overlaps, to_numpy

SETTINGS = settings(max_examples=200, deadline=None, derandomize=True)
ROWS, COLUMNS = 2, 3

# Each takes (module, tensor) and gives a view, or raises where the shape does not allow it.
VIEWS: dict[str, Callable[[Any, Any], Any]] = {
    "view_flat": lambda m, t: t.view(-1),
    "view_2d": lambda m, t: t.view(-1, 1),
    "reshape": lambda m, t: t.reshape(-1),
    "transpose": lambda m, t: t.transpose(0, -1),
    "permute": lambda m, t: t.permute(*reversed(range(t.dim()))),
    "select": lambda m, t: t[0],
    "select_last": lambda m, t: t.select(-1, -1),
    "slice": lambda m, t: t[..., 1:],
    "slice_step": lambda m, t: t[..., ::2],
    "narrow": lambda m, t: t.narrow(0, 0, 1),
    "expand": lambda m, t: t.unsqueeze(0).expand(2, *t.shape),
    "unsqueeze": lambda m, t: t.unsqueeze(-1),
    "squeeze": lambda m, t: t.squeeze(),
    "diagonal": lambda m, t: t.diagonal(),
    "detach": lambda m, t: t.detach(),
    "unbind": lambda m, t: t.unbind(0)[0],
    "split": lambda m, t: t.split(1)[0],
    "chunk": lambda m, t: t.chunk(2)[-1],
    "as_strided": lambda m, t: t.as_strided((2,), (1,)),
    "unfold": lambda m, t: t.unfold(-1, 2, 2),  # PyTorch lets one write where windows overlap
    "view_as_itself": lambda m, t: t.view_as(t),
    "contiguous": lambda m, t: t.contiguous(),
    "flatten": lambda m, t: t.flatten(),
}


def apart(target: Any, other: Any) -> Any:
    """PyTorch reads what it has just written where strided operands overlap, and cannot
    differentiate `t.mul_(t)`."""
    return other.clone() if overlaps(target, other) else other


def not_spread(tensor: Any) -> Any:
    """PyTorch lets some operations write where elements share memory; weft never does."""
    if 0 in tensor.stride():
        raise RuntimeError("elements share memory")
    return tensor


INPLACE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "mul_scalar": lambda m, t, o: t.mul_(2.0),
    "add_other": lambda m, t, o: t.add_(apart(t, o)),
    "mul_other": lambda m, t, o: t.mul_(apart(t, o)),
    "copy_other": lambda m, t, o: t.copy_(apart(t, o)),
    "zero_": lambda m, t, o: not_spread(t).zero_(),
    "fill_": lambda m, t, o: not_spread(t).fill_(0.5),
    "tanh_": lambda m, t, o: t.tanh_(),
    "exp_": lambda m, t, o: t.exp_(),
    "set_first": lambda m, t, o: t.__setitem__(0, 3.0),
    "set_other": lambda m, t, o: t.__setitem__(0, o.sum()),
    "iadd": lambda m, t, o: t.__iadd__(1.0),
    "relu_": lambda m, t, o: t.relu_(),
    "detach_": lambda m, t, o: t.detach_(),
    "masked_fill_": lambda m, t, o: not_spread(t).masked_fill_(t.detach() > 0.5, 0.25),
    "clamp_": lambda m, t, o: t.clamp_(-1.0, 1.0),
    "squeeze_": lambda m, t, o: t.squeeze_(),
    "unsqueeze_": lambda m, t, o: t.unsqueeze_(0),
    "t_": lambda m, t, o: t.transpose_(0, -1),
    "requires_grad_": lambda m, t, o: t.requires_grad_(),
    "data_write": lambda m, t, o: t.data.mul_(0.5),
}
PURE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "mul": lambda m, t, o: t * o,
    "square": lambda m, t, o: t * t,
    "exp": lambda m, t, o: t.exp(),
    "clone": lambda m, t, o: t.clone(),
    "sum": lambda m, t, o: t.sum(),
    "add_constant": lambda m, t, o: t + 1.0,
    "sigmoid": lambda m, t, o: t.sigmoid(),
}
KINDS = {"view": VIEWS, "inplace": INPLACE, "pure": PURE}


@dataclasses.dataclass(frozen=True)
class Instruction:
    kind: str
    name: str
    target: int
    other: int
    no_grad: bool


@st.composite
def instructions(draw: st.DrawFn) -> Instruction:
    kind = draw(st.sampled_from(["view", "view", "inplace", "inplace", "pure", "backward"]))
    name = draw(st.sampled_from(sorted(KINDS[kind]))) if kind in KINDS else "backward"
    # PyTorch cannot differentiate what has been transposed in place without its knowledge.
    always_recorded = kind == "backward" or name in ("squeeze_", "unsqueeze_", "t_")
    no_grad = not always_recorded and draw(st.integers(0, 9)) == 0
    number = st.integers(0, 30)
    return Instruction(kind, name, draw(number), draw(number), no_grad)


def start(module: Any) -> list[Any]:
    """A leaf, a result, and a plain tensor."""
    values = [[0.1, 0.7, -0.4], [1.2, -0.3, 0.5]]
    leaf = module.tensor(values, dtype=module.float64, requires_grad=True)
    return [leaf, leaf * 1.0, module.tensor(values, dtype=module.float64) + 0.5]


def run_one(module: Any, tensors: list[Any], step: Instruction) -> str:
    """Runs an instruction on the pool; the kind of its outcome."""
    target = tensors[step.target % len(tensors)]
    other = tensors[step.other % len(tensors)]
    try:
        with module.set_grad_enabled(not step.no_grad):
            if step.kind == "backward":
                (target.sum() * 1.0).backward(retain_graph=True)
            elif step.kind == "inplace":
                # A view looks for its history here; PyTorch forgets to before it writes.
                refused(lambda: target.is_leaf)
                INPLACE[step.name](module, target, other)
            elif step.kind == "view":
                tensors.append(VIEWS[step.name](module, target))
            else:
                tensors.append(PURE[step.name](module, target, other))
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
        return f"refused: {error}"
    return "done"


def refused(read: Callable[[], Any]) -> Any:
    """PyTorch refuses even to look at some views: that is an answer, too."""
    try:
        return read()
    except RuntimeError:
        return "refused"


def node_name(tensor: Any) -> str | None:
    node = refused(lambda: tensor.grad_fn)
    if node is None or isinstance(node, str):
        return node
    # PyTorch says torch::autograd::CopySlices, and numbers the overloads of an operation.
    return node.name().rpartition("::")[2].rstrip("0123456789")


# PyTorch's own composition shows through these names; weft may show another last primitive.
COMPOSED = {"ReshapeAliasBackward", "UnsafeViewBackward", "ViewBackward"}


def state(module: Any, tensors: list[Any]) -> list[dict[str, Any]]:
    """Everything about the pool that both modules must agree on."""

    def numbers(tensor: Any) -> Any:
        return [float(f"{x:.8g}") for x in to_numpy(tensor, module).ravel().tolist()]

    def steps(tensor: Any) -> list[int]:
        return [s for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1]

    def gradient(tensor: Any) -> Any:
        return numbers(tensor.grad) if tensor.is_leaf and tensor.grad is not None else None

    def base(tensor: Any) -> int | None:
        return next((i for i, other in enumerate(tensors) if other is tensor._base), None)

    questions: dict[str, Callable[[Any], Any]] = {
        "values": numbers,
        "shape": lambda t: tuple(t.shape),
        "stride": steps,
        "requires_grad": lambda t: t.requires_grad,
        "is_leaf": lambda t: t.is_leaf,
        "version": lambda t: t._version,
        "is_view": lambda t: t._is_view(),
        "base": base,
        "grad": gradient,
    }
    return [
        {key: refused(lambda t=tensor, ask=ask: ask(t)) for key, ask in questions.items()}
        for tensor in tensors
    ]


def run(module: Any, program: list[Instruction]) -> tuple[list[str], list[Any]]:
    tensors = start(module)
    return [run_one(module, tensors, step) for step in program], tensors


def listing(program: list[Instruction], outcomes: list[str]) -> str:
    rows = zip(program, outcomes, strict=True)
    return "\n".join(f"  {s.name}({s.target}, {s.other}) -> {o}" for s, o in rows)


@SETTINGS
@given(st.lists(instructions(), min_size=1, max_size=12))
def test_programs(program: list[Instruction]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected_outcomes, expected = run(torch, program)
        outcomes, actual = run(weft, program)
    kinds = [outcome.partition(":")[0] for outcome in outcomes]
    wanted = [outcome.partition(":")[0] for outcome in expected_outcomes]
    shown = f"{listing(program, outcomes)}\ntorch:\n{listing(program, expected_outcomes)}"
    assert kinds == wanted, shown
    assert len(actual) == len(expected)
    ours, theirs = state(weft, actual), state(torch, expected)
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        for key in one:
            assert one[key] == other[key], f"tensor {number} {key}\n{shown}"
    for one, other in zip(actual, expected, strict=True):
        names = node_name(one), node_name(other)
        assert names[0] == names[1] or set(names) <= COMPOSED, f"grad_fn {names}\n{shown}"


def programs() -> dict[str, Callable[[Any], Any]]:
    """Known hard cases, by hand. Each gives something comparable, or raises."""

    def view_then_base(m: Any) -> Any:
        a = m.ones(2, 3, requires_grad=True)
        b = a * 2
        v = b[0]
        b.mul_(3)
        v.sum().backward()
        return a.grad.tolist(), node_name(v), node_name(b)

    def base_then_view(m: Any) -> Any:
        a = m.ones(2, 3, requires_grad=True)
        b = a * 2
        v = b[0]
        v.mul_(3)
        b.sum().backward()
        return a.grad.tolist(), node_name(v), node_name(b)

    def two_views(m: Any) -> Any:
        a = m.ones(4, requires_grad=True)
        b = a.clone()
        first, second = b[:2], b[1:3]
        first *= 2
        second *= 3
        (b * m.arange(4.0)).sum().backward()
        return a.grad.tolist(), first.tolist(), second.tolist()

    def view_of_view(m: Any) -> Any:
        a = m.ones(2, 3, requires_grad=True)
        b = a.clone()
        v = b.t()[1:].unsqueeze(0)
        v.exp_()
        b.sum().backward()
        return a.grad.tolist(), v._base is b, v.stride()

    def leaf_in_place(m: Any) -> Any:
        a = m.ones(2, requires_grad=True)
        a.add_(1)

    def view_of_leaf_in_place(m: Any) -> Any:
        a = m.ones(2, requires_grad=True)
        a[0].add_(1)

    def saved_output_overwritten(m: Any) -> Any:
        a = m.ones(2, requires_grad=True)
        b = a.exp()
        b.add_(1)
        b.sum().backward()

    def saved_input_overwritten(m: Any) -> Any:
        a = m.ones(2, requires_grad=True)
        b = a * 1
        c = b * b
        b.add_(1)
        c.sum().backward()

    def unsaved_input_overwritten(m: Any) -> Any:
        a = m.ones(2, requires_grad=True)
        b = a * 1
        c = b + b
        b.add_(1)
        c.sum().backward()
        return a.grad.tolist()

    def saved_through_view(m: Any) -> Any:
        a = m.ones(2, 2, requires_grad=True)
        b = a * 1
        c = b.exp()
        c[0].zero_()
        c.sum().backward()

    def detached_shares_version(m: Any) -> Any:
        a = m.ones(2, requires_grad=True)
        b = a * 1
        c = b * b
        b.detach().add_(1)
        c.sum().backward()

    def data_hides_version(m: Any) -> Any:
        a = m.ones(2, requires_grad=True)
        b = a * 1
        c = b * b
        b.data.add_(1)
        c.sum().backward()
        return a.grad.tolist(), b._version

    def no_grad_view_of_leaf(m: Any) -> Any:
        a = m.ones(2, requires_grad=True)
        with m.no_grad():
            v = a[0]
        v.mul_(2)

    def no_grad_write_to_leaf(m: Any) -> Any:
        a = m.ones(2, requires_grad=True)
        with m.no_grad():
            a.mul_(2)
        (a * a).sum().backward()
        return a.grad.tolist(), a._version, a.is_leaf

    def unbind_view_in_place(m: Any) -> Any:
        a = m.ones(2, 2, requires_grad=True)
        b = a * 1
        rows = b.unbind(0)
        rows[0].mul_(2)

    def split_view_in_place(m: Any) -> Any:
        a = m.ones(2, 2, requires_grad=True)
        b = a * 1
        b.split(1)[0].mul_(2)

    def plain_made_differentiable(m: Any) -> Any:
        a = m.ones(2, requires_grad=True)
        b = m.zeros(2, 2)
        v = b[0]
        v.add_(a)
        b.sum().backward()
        return a.grad.tolist(), b.requires_grad, node_name(v), node_name(b)

    def copy_into_slices(m: Any) -> Any:
        a = m.ones(3, requires_grad=True)
        out = m.zeros(3, 3)
        for i in range(3):
            out[i] = a * i
        (out * out).sum().backward()
        return a.grad.tolist(), out._version

    def expanded_in_place(m: Any) -> Any:
        m.ones(1).expand(3).add_(1)

    def expanded_self_add(m: Any) -> Any:
        a = m.ones(3, 1)
        a += a.expand(3, 1)
        return a.tolist()

    def overlapping_copy(m: Any) -> Any:
        a = m.arange(4.0)
        a[1:].add_(a[:-1])

    def swap_through_views(m: Any) -> Any:
        a = m.tensor([1.0, 2.0], requires_grad=True)
        b = a.clone()
        first, second = b[0].clone(), b[1].clone()
        b[0], b[1] = second, first
        (b * m.tensor([1.0, 10.0])).sum().backward()
        return a.grad.tolist()

    def view_created_before_requires_grad(m: Any) -> Any:
        a = m.ones(2)
        v = a[0]
        a.requires_grad_()
        return v.requires_grad, (a * 2).sum().requires_grad

    def detach_in_place(m: Any) -> Any:
        a = m.ones(2, requires_grad=True)
        b = a * 2
        b.detach_()
        return b.requires_grad, b.is_leaf, b.grad_fn

    def detach_in_place_of_view(m: Any) -> Any:
        a = m.ones(2, requires_grad=True)
        (a * 2)[0].detach_()

    def create_graph_through_copy_slices(m: Any) -> Any:
        a = m.tensor([0.5, 1.5], dtype=m.float64, requires_grad=True)
        b = a * a
        b[0].mul_(a[1])
        (g,) = m.autograd.grad((b * b).sum(), a, create_graph=True)
        (gg,) = m.autograd.grad(g.sum(), a)
        return [round(x, 9) for x in gg.tolist()]

    def inplace_on_view_after_backward(m: Any) -> Any:
        a = m.ones(2, requires_grad=True)
        b = a * 2
        b.sum().backward()
        b[0] += 1
        return b.tolist()

    def set_data(m: Any) -> Any:
        a = m.ones(2, requires_grad=True)
        a.data = m.zeros(3)
        (a + 1).sum().backward()
        return a.grad.tolist(), a._version, a.tolist()

    def no_grad_view_of_what_requires_grad(m: Any) -> Any:
        a = m.ones(2, requires_grad=True)
        with m.no_grad():
            v = a[0]
        (v * 2).backward()
        return v.requires_grad, v.is_leaf, v.grad_fn, v.grad, a.grad

    def no_grad_view_after_a_write_to_its_base(m: Any) -> Any:
        a = m.ones(2, requires_grad=True) * 1
        with m.no_grad():
            v = a[0]
        a.mul_(2)
        return v.requires_grad, refused(lambda: v.grad_fn), refused(lambda: v.is_leaf)

    def split_view_after_a_write_to_its_base(m: Any) -> Any:
        a = m.ones(4, requires_grad=True) * 1
        first, _ = a.split(2)
        a.mul_(2)
        return first.requires_grad, refused(lambda: first.grad_fn), refused(lambda: first + 1)

    def view_of_a_split_view_in_place(m: Any) -> Any:
        a = m.ones(4, requires_grad=True) * 1
        a.split(2)[0].view(2, 1).mul_(2)

    def inference_view_of_a_normal_tensor(m: Any) -> Any:
        a = m.ones(2, requires_grad=True) * 1
        with m.inference_mode():
            v = a[0]
            a.add_(1)
        return (
            v.is_inference(), v._is_view(), a.is_inference(), a._version,
            refused(lambda: v.mul_(2)), refused(lambda: v.grad_fn),
        )  # fmt: skip

    def plain_view_written_in_inference_mode(m: Any) -> Any:
        a = m.ones(2)
        with m.inference_mode():
            v = a[0]
        v.add_(1)
        return v.requires_grad_().requires_grad, a.tolist()

    def base_detached_under_a_view(m: Any) -> Any:
        a = m.ones(2, requires_grad=True)
        b = a * 1
        v = b[:1]
        b.detach_()
        with m.no_grad():
            b.mul_(3)
        v.sum().backward()
        return v.requires_grad, a.grad, b.requires_grad

    def inference_tensor_in_place(m: Any) -> Any:
        with m.inference_mode():
            a = m.ones(2)
        a.add_(1)

    def inference_tensor_saved(m: Any) -> Any:
        with m.inference_mode():
            a = m.ones(2)
        b = m.ones(2, requires_grad=True)
        a * b

    local = dict(locals())
    return {name: call for name, call in local.items() if callable(call)}


@pytest.mark.parametrize("name", sorted(programs()))
def test_known_cases(name: str) -> None:
    call = programs()[name]
    results = []
    for module in (weft, torch):
        try:
            results.append(("done", call(module)))
        except Exception as error:
            results.append(("refused", type(error).__name__))
    assert results[0] == results[1]

"""Basic and advanced indexing, reading and writing, generated and compared with PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from .._target import weft
from .bridge import Bridge, overlaps
from .compare import same, same_gradient
from .opdb import attempt, first_line

SETTINGS = settings(max_examples=150, deadline=None, derandomize=True)
SHAPES = st.lists(st.integers(0, 4), min_size=0, max_size=4).map(tuple)


@st.composite
def index_tensors(draw: st.DrawFn, length: int) -> torch.Tensor:
    shape = draw(st.lists(st.integers(0, 3), max_size=2).map(tuple))
    low = -length if draw(st.booleans()) else 0
    count = int(np.prod(shape))
    inside = st.integers(low, max(length - 1, low))
    values = draw(st.lists(inside, min_size=count, max_size=count))
    if count and draw(st.integers(0, 30)) == 0:
        values[0] = length  # one past the end: both must refuse
    dtype = draw(st.sampled_from([torch.int64, torch.int64, torch.int32, torch.uint8]))
    if dtype is torch.uint8:
        dtype = torch.int64  # bytes are masks in PyTorch, tested below
    return torch.tensor(values, dtype=dtype).reshape(shape)


@st.composite
def masks(draw: st.DrawFn, shape: tuple[int, ...]) -> torch.Tensor:
    count = int(np.prod(shape))
    values = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    return torch.tensor(values, dtype=torch.bool).reshape(shape)


@st.composite
def slices(draw: st.DrawFn) -> slice:
    ends = st.none() | st.integers(-6, 6)
    step = draw(st.none() | st.integers(1, 3) | st.sampled_from([0, -1]))
    return slice(draw(ends), draw(ends), step)


@st.composite
def items(draw: st.DrawFn, shape: tuple[int, ...], *, advanced: bool) -> Any:
    """What stands between the brackets, for a tensor of this shape."""
    parts: list[Any] = []
    dim, seen_ellipsis = 0, False
    while dim < len(shape) and len(parts) < 6:
        length = shape[dim]
        kinds = ["int", "slice", "slice", "none", "stop", "ellipsis", "bool"]
        if advanced:
            kinds += ["tensor", "tensor", "mask", "list", "array"]
        kind = draw(st.sampled_from(kinds))
        if kind == "stop":
            break
        if kind == "ellipsis":
            if seen_ellipsis:
                continue
            seen_ellipsis = True
            parts.append(...)
            dim += draw(st.integers(0, len(shape) - dim))
        elif kind == "none":
            parts.append(None)
        elif kind == "bool":
            parts.append(draw(st.booleans()))
        elif kind == "int":
            parts.append(draw(st.integers(-length - (length == 0), max(length - 1, 0))))
            dim += 1
        elif kind == "slice":
            parts.append(draw(slices()))
            dim += 1
        elif kind == "tensor":
            parts.append(draw(index_tensors(length)))
            dim += 1
        elif kind == "mask":
            rank = draw(st.integers(1, min(2, len(shape) - dim)))
            parts.append(draw(masks(shape[dim : dim + rank])))
            dim += rank
        elif kind == "list":
            count = draw(st.integers(1, 3))
            inside = st.integers(-length, length - 1) if length else st.just(0)
            parts.append(draw(st.lists(inside, min_size=count, max_size=count)))
            dim += 1
        else:
            inside = st.integers(0, length - 1) if length else st.just(0)
            parts.append(np.array(draw(st.lists(inside, min_size=2, max_size=2))))
            dim += 1
    if len(parts) == 1 and draw(st.booleans()):
        return parts[0]
    return tuple(parts)


@st.composite
def cases(draw: st.DrawFn, *, advanced: bool) -> tuple[torch.Tensor, Any]:
    shape = draw(SHAPES)
    value = torch.arange(1.0, 1.0 + int(np.prod(shape)), dtype=torch.float64).reshape(shape)
    if len(shape) > 1 and draw(st.booleans()):
        value = value.transpose(0, -1)
    return value, draw(items(tuple(value.shape), advanced=advanced))


def steps_of(tensor: Any) -> list[int]:
    """Strides of the dimensions along which anybody steps."""
    return [step for n, step in zip(tensor.shape, tensor.stride(), strict=True) if n > 1]


def compare_reading(value: torch.Tensor, item: Any) -> None:
    source = value.clone(memory_format=torch.preserve_format).requires_grad_()
    ours, our_item = Bridge(weft)((source, item))
    expected = attempt(lambda: source[item])
    actual = attempt(lambda: ours[our_item])
    assert (actual.error is None) == (expected.error is None), (actual, expected)
    if expected.error is not None:
        assert type(actual.error) is type(expected.error), (actual, expected)
        return
    same(actual.result, expected.result, weft)
    assert overlaps(actual.result, ours) == overlaps(expected.result, source), "view or copy"
    if overlaps(expected.result, source):
        assert steps_of(actual.result) == steps_of(expected.result)
    if expected.result.requires_grad:
        weights = torch.arange(1.0, 1.0 + expected.result.numel(), dtype=torch.float64)
        weights = weights.reshape(expected.result.shape)
        (theirs,) = torch.autograd.grad(expected.result, source, weights)
        (found,) = weft.autograd.grad(actual.result, ours, Bridge(weft)(weights))
        same_gradient(found, theirs, weft)


@SETTINGS
@given(cases(advanced=False))
def test_basic_reading(case: tuple[torch.Tensor, Any]) -> None:
    compare_reading(*case)


@SETTINGS
@given(cases(advanced=True))
def test_advanced_reading(case: tuple[torch.Tensor, Any]) -> None:
    compare_reading(*case)


@st.composite
def writes(draw: st.DrawFn) -> tuple[torch.Tensor, Any, Any]:
    value, item = draw(cases(advanced=draw(st.booleans())))
    outcome = attempt(lambda: value[item])
    kind = draw(st.sampled_from(["scalar", "same", "broadcast", "zero_dim", "wrong", "integer"]))
    if kind == "scalar" or outcome.error is not None:
        return value, item, -1.5
    shape = tuple(outcome.result.shape)
    if kind == "broadcast":
        shape = tuple(1 if draw(st.booleans()) else n for n in shape)
    if kind == "zero_dim":
        shape = ()
    if kind == "wrong":
        shape = (*shape, 5)
    new = -torch.arange(1.0, 1.0 + int(np.prod(shape)), dtype=torch.float64).reshape(shape)
    return value, item, new.long() if kind == "integer" else new


def has_duplicates(value: torch.Tensor, item: Any) -> bool:
    """Whether one element is written twice: which write wins is nobody's promise."""
    places = torch.arange(value.numel()).reshape(value.shape)
    outcome = attempt(lambda: places[item])
    return outcome.error is None and outcome.result.unique().numel() != outcome.result.numel()


@SETTINGS
@given(writes())
def test_writing(case: tuple[torch.Tensor, Any, Any]) -> None:
    value, item, new = case
    if has_duplicates(value, item):
        return
    if isinstance(new, torch.Tensor) and new.is_floating_point():
        new.requires_grad_()
    sides = []
    for module in (weft, torch):
        convert = Bridge(module)
        leaf, its_item, its_new = convert((value.clone().requires_grad_(), item, new))
        target = leaf * 1

        def write(target: Any = target, its_item: Any = its_item, its_new: Any = its_new) -> None:
            target[its_item] = its_new

        sides.append((attempt(write), target, convert))
    (actual, ours, to_ours), (expected, theirs, to_torch) = sides
    assert (actual.error is None) == (expected.error is None), (
        actual.error and first_line(actual.error),
        expected.error and first_line(expected.error),
    )
    same(ours, theirs, weft)
    if expected.error is not None:
        return
    weights = torch.arange(1.0, 1.0 + theirs.numel(), dtype=torch.float64).reshape(theirs.shape)
    wanted = torch.autograd.grad(theirs, to_torch.leaves, weights, allow_unused=True)
    found = weft.autograd.grad(ours, to_ours.leaves, Bridge(weft)(weights), allow_unused=True)
    for one, other in zip(found, wanted, strict=True):
        same_gradient(one, other, weft)


@SETTINGS
@given(writes(), st.booleans())
def test_index_put(case: tuple[torch.Tensor, Any, Any], accumulate: bool) -> None:
    value, item, new = case
    tensors = tuple(part for part in (item if isinstance(item, tuple) else (item,)))
    if not all(isinstance(part, torch.Tensor) for part in tensors) or not tensors:
        return
    if not isinstance(new, torch.Tensor) or (not accumulate and has_duplicates(value, item)):
        return
    ours, our_item, our_new = Bridge(weft)((value, tensors, new))
    expected = attempt(lambda: value.index_put(tensors, new, accumulate=accumulate))
    actual = attempt(lambda: ours.index_put(our_item, our_new, accumulate=accumulate))
    assert (actual.error is None) == (expected.error is None), (actual, expected)
    if expected.error is None:
        same(actual.result, expected.result, weft)


@pytest.mark.parametrize(
    "item",
    [
        slice(None, None, -1),
        slice(None, None, 0),
        (0, 0, 0, 0),
        (..., ...),
        1.0,
        "x",
        (slice(None), "x"),
        object(),
        {},
        [[0], [1, 2]],
        [0.5],
        slice(0.5, None),
        2**70,
        -(2**63),
        slice(-(2**63), 2**63 - 1),
        True,
        False,
        None,
        [],
        (),
        [True, False],
        [[True, False, True], [False, False, True]],
        torch.tensor([True, False, True]),
        torch.tensor(True),
        torch.tensor(1),
        torch.tensor(1, dtype=torch.int32),
        torch.tensor([0, 1], dtype=torch.uint8),
        torch.tensor([0.0]),
        torch.zeros(0, dtype=torch.int64),
        (torch.tensor([0, 1]), torch.tensor([0, 1, 2])),
        (torch.tensor([0, 1]), slice(None), torch.tensor([0, 1])),
        (torch.tensor([0, 1]), None, torch.tensor([0, 1])),
        range(1),
        np.int64(1),
        np.array([True, False]),
        (np.array(1), slice(None)),
        [slice(0, 1)],
        [0, slice(None)],
    ],
    ids=str,
)
def test_unusual_items(item: Any) -> None:
    value = torch.arange(6.0).reshape(2, 3)
    ours, our_item = Bridge(weft)((value, item))
    with (
        warnings.catch_warnings()
    ):  # PyTorch warns about some of them, which is not what is compared
        warnings.simplefilter("ignore")
        expected = attempt(lambda: value[item])
        actual = attempt(lambda: ours[our_item])
    shown = (actual.error and first_line(actual.error), expected.error, expected.result)
    assert (actual.error is None) == (expected.error is None), shown
    if expected.error is None:
        same(actual.result, expected.result, weft)
    else:
        assert isinstance(actual.error, type(expected.error)), shown


def test_a_step_beyond_all_sizes_overflows_nothing() -> None:
    """numpy's answer; PyTorch multiplies the stride by the step and fails."""
    value = torch.arange(6.0).reshape(2, 3)
    item = slice(2**62, 2**63 - 1, 2**62)
    assert Bridge(weft)((value,))[0][item].shape == value.numpy()[item].shape


def test_bytes_are_masks() -> None:
    """uint8 indices select where they are not zero, with a warning, as in PyTorch."""
    for module in (torch, weft):
        value = module.arange(4)
        with pytest.warns(UserWarning, match="bool"):
            chosen = value[module.tensor([0, 1, 0, 1], dtype=module.uint8)]
        assert chosen.tolist() == [1, 3]


def test_writing_into_an_expanded_tensor_is_refused() -> None:
    for module in (torch, weft):
        target = module.zeros(3, 1).expand(3, 4)
        with pytest.raises(RuntimeError):
            target[0] = module.ones(4)


def test_writing_overlapping_memory_of_itself_is_refused() -> None:
    for module in (torch, weft):
        value = module.arange(5.0)
        with pytest.raises(RuntimeError):
            value[module.tensor([0, 1, 2])] = value[2:]
        assert value.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]

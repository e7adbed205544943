"""First and second derivatives of every operation in the table, against finite differences."""

from __future__ import annotations

import random
import warnings
import zlib
from pathlib import Path
from typing import Any

import pytest

from ._target import weft, weft_only
from .op_rows import Call, Kink, Row, tensors_of
from .op_table import BEYOND_THE_LIST, INTEGER_OR_CONSTANT, SAME_AS, SYNTAX, TABLE


def cases(kind: str) -> list[Any]:
    found = []
    for number, row in enumerate(TABLE):
        items: tuple[Any, ...] = row.kinks if kind == "kink" else row.calls
        # A name may have several rows: the number tells them apart.
        found += [
            pytest.param(row, item, id=f"{row.name}-{number}-{i}") for i, item in enumerate(items)
        ]
    return found


def prepared(row: Row, call: Call, device: str) -> tuple[Any, list[Any]]:
    """A function of the differentiable inputs alone, and these inputs."""
    source = random.Random(zlib.crc32(f"{row.name}{call}".encode()))
    inputs: list[Any] = []
    args = tensors_of(call.args, source, weft.float64, inputs)
    kwargs = {key: tensors_of(v, source, weft.float64, inputs) for key, v in call.kwargs.items()}
    function = row.resolve()
    if device != "cpu":
        inputs = [value.detach().to(device).requires_grad_() for value in inputs]

    def of_inputs(*values: Any) -> Any:
        replacements = iter(values)

        def replaced(value: Any) -> Any:
            if isinstance(value, weft.Tensor):
                return next(replacements) if value.requires_grad else value.to(device)
            if isinstance(value, (list, tuple)):
                return type(value)(replaced(item) for item in value)
            return value

        out = function(*replaced(args), **{k: replaced(v) for k, v in kwargs.items()})
        if isinstance(out, (list, tuple)):
            return tuple(item for item in out if item.requires_grad)
        return out

    return of_inputs, inputs


@pytest.mark.parametrize(("row", "call"), cases("call"))
def test_first_derivative(row: Row, call: Call, device: str) -> None:
    function, inputs = prepared(row, call, device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert weft.autograd.gradcheck(function, inputs, atol=row.tolerance)


@pytest.mark.parametrize(("row", "call"), cases("call"))
def test_second_derivative(row: Row, call: Call, device: str) -> None:
    function, inputs = prepared(row, call, device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert weft.autograd.gradgradcheck(function, inputs, atol=10 * row.tolerance)


@pytest.mark.parametrize(("row", "kink"), cases("kink"))
def test_convention_where_no_derivative_exists(row: Row, kink: Kink, device: str) -> None:
    inputs: list[Any] = []

    def tensor(value: Any) -> Any:
        flat = value[0] if isinstance(value, list) else value
        flat = flat[0] if isinstance(flat, list) else flat
        if not isinstance(value, list) or not isinstance(flat, float):
            return value
        made = weft.tensor(value, dtype=weft.float64, device=device, requires_grad=True)
        inputs.append(made)
        return made

    out = row.resolve()(*map(tensor, kink.args), **kink.kwargs)
    out = out[0] if isinstance(out, (list, tuple)) else out
    grads = weft.autograd.grad(out.sum(), inputs, allow_unused=True)
    assert len(grads) == len(kink.expected)
    for found, expected in zip(grads, kink.expected, strict=True):
        values = [0.0] * len(expected) if found is None else found.clone().tolist()
        assert flattened(values) == pytest.approx(flattened(expected), nan_ok=True)


def flattened(value: Any) -> list[float]:
    if isinstance(value, list):
        return [number for item in value for number in flattened(item)]
    return [value]


@weft_only
def test_ldexp_by_negative_powers() -> None:
    """PyTorch gives 0 here: it raises an integer 2 to the negative power."""
    x = weft.ones(2, dtype=weft.float64, requires_grad=True)
    weft.ldexp(x, weft.tensor([-2, -1])).sum().backward()
    assert x.grad.tolist() == [0.25, 0.5]


def test_no_operation_is_forgotten() -> None:
    """Every name of the list has a row, or is known to have no derivative."""
    lines = (Path(__file__).parent / "parity/engine_ops.txt").read_text().splitlines()
    names = {line.strip() for line in lines if line.strip() and not line.startswith("#")}
    rows = {row.name for row in TABLE} - {row.name for row in BEYOND_THE_LIST}
    assert names - rows - INTEGER_OR_CONSTANT - SYNTAX == set()
    assert rows & INTEGER_OR_CONSTANT == set()
    assert (rows | INTEGER_OR_CONSTANT | SYNTAX) - names == set()


def test_differentiable_operations_of_the_registry_are_in_the_table() -> None:
    registry = getattr(getattr(weft, "_core", None), "registry", None)
    if registry is None:
        pytest.skip("a registry is weft's own")
    assert set(SAME_AS.values()) <= {row.name for row in TABLE}
    rows = {row.name.rpartition(".")[2] for row in TABLE} | INTEGER_OR_CONSTANT | SAME_AS.keys()
    missing = sorted(
        item["name"]
        for item in registry()
        if item["kinds"] and item.get("differentiable") and item["name"] not in rows
    )
    assert not missing

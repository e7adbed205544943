"""Every operation of the list against PyTorch, over PyTorch's own samples.

`WEFT_PARITY_SAMPLES` limits the samples per operation and dtype (0: all). For an overview that
survives crashes: `python -m tests.parity.summary`.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from .._target import weft
from . import opdb

SAMPLES = int(os.environ.get("WEFT_PARITY_SAMPLES", "12"))
REFERENCES = int(os.environ.get("WEFT_PARITY_REFERENCES", "0"))

# What weft refuses for now, each with its reason. Strict: the day one works, its line must go.
REFUSED: dict[str, str] = {}


def marks(name: str, dtype: str) -> list[pytest.MarkDecorator]:
    refused = name in REFUSED and dtype != "errors"
    return [pytest.mark.xfail(reason=REFUSED[name], strict=True)] if refused else []


CASES = [
    pytest.param(
        op, dtype, id=f"{opdb.full_name(op)}-{dtype}", marks=marks(opdb.full_name(op), dtype)
    )
    for name in opdb.op_names()
    for op in opdb.variants_of(name)
    for dtype in opdb.dtypes_of(op)
]


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_op(op: Any, dtype: str) -> None:
    failures, _ = opdb.check(weft, op, dtype, samples=SAMPLES, references=REFERENCES)
    shown = "\n".join(f"  {failure.kind}: {failure}" for failure in failures[:10])
    assert not failures, f"{len(failures)} differences from PyTorch:\n{shown}"

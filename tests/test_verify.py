"""Gradient checks that keep their record: `weft.verify` and `weft verify`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from weft import nn
from weft.check import Record, repeat

MODULE = """
import weft
from weft import nn

def smooth(x: "[3, 4]", w: "float64[4]", rows: "int64[5] < 3"):
    return (x @ w).tanh()[rows].exp()

def case():
    x = weft.linspace(1, 2, 3, dtype=weft.float64).requires_grad_()
    return (lambda x: x.log() * x), x

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
    def forward(self, x: "[5, 3]"):
        return self.layer(x).sin()

class WrongSign(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return -g * x.cos()

def wrong(x: "[3]"):
    return WrongSign.apply(x)
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(MODULE)
    return path


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "weft", "verify", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("name", ["smooth", "case", "Model"])
def test_right_gradients_pass_and_repeat(module: Path, tmp_path: Path, name: str) -> None:
    kept = tmp_path / "record.json"
    record = weft.verify(f"{module}:{name}", second_order=True, record=kept)
    assert record.passed
    assert {result.order for result in record.results} == {1, 2}
    assert all(result.elements for result in record.results)
    assert 0 < max(result.worst_error for result in record.results) < 1e-6
    before, after, changed = repeat(kept)
    assert changed == []
    assert before.figures() == after.figures()


def test_a_wrong_gradient_fails_and_says_where(module: Path) -> None:
    record = weft.verify(f"{module}:wrong")
    (result,) = record.results
    assert not record.passed
    assert result.name == "x"
    assert result.analytical == pytest.approx(-result.numerical, rel=1e-6)
    assert "WRONG" in str(record) and "FAILED" in str(record)


def test_a_single_wrong_element_is_found() -> None:
    class OneWrong(weft.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            return x * 2

        @staticmethod
        def backward(ctx, g):  # type: ignore[no-untyped-def]
            g = g * 2
            g[7, 3] *= 1.001
            return g

    x = weft.rand(9, 5, dtype=weft.float64, requires_grad=True)
    (result,) = weft.verify(OneWrong.apply, x).results
    assert not result.passed
    assert result.worst_at == [7, 3]


def test_parameters_are_restored_and_dropout_stays_the_same() -> None:
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1)).double()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    x = weft.rand(4, 3, dtype=weft.float64)
    record = weft.verify(model, x)
    assert record.passed
    assert [result.name for result in record.results] == [
        "0.weight", "0.bias", "2.weight", "2.bias",
    ]  # fmt: skip
    for old, new in zip(before, model.parameters(), strict=True):
        assert weft.equal(old, new)
        assert new.grad is None


def test_large_inputs_are_sampled() -> None:
    x = weft.rand(1000, dtype=weft.float64, requires_grad=True)
    (result,) = weft.verify(lambda x: x.exp(), x, samples=10).results
    assert result.elements == 10


def test_a_changed_function_does_not_repeat(module: Path, tmp_path: Path) -> None:
    kept = tmp_path / "record.json"
    weft.verify(f"{module}:smooth", record=kept)
    module.write_text(MODULE.replace(".exp()", ".exp() * 2"))
    _, _, changed = repeat(kept)
    assert any("source" in difference for difference in changed)
    assert any("analytical" in difference for difference in changed)


def test_the_record_says_under_what_it_was_made(module: Path, tmp_path: Path) -> None:
    kept = tmp_path / "record.json"
    weft.verify(f"{module}:smooth", seed=3, record=kept)
    data = json.loads(kept.read_text())
    assert data["format"] == "weft-verify/1" and data["passed"] is True
    assert data["seed"] == 3 and data["step"] > 0 and data["dtype"] == "float64"
    environment = data["environment"]
    assert environment["weft"] == weft.__version__
    assert environment["threads"] and environment["instruction_set"] and environment["date"]
    assert Record.load(kept).figures() == data["results"]


def test_mistakes_are_explained(module: Path, tmp_path: Path) -> None:
    x = weft.rand(2, dtype=weft.float64, requires_grad=True)
    with pytest.raises(ValueError, match="nothing to check"):
        weft.verify(lambda x: x, weft.rand(2))
    with pytest.raises(ValueError, match="no history"):
        weft.verify(lambda x: x.detach(), x)
    with pytest.raises(ValueError, match="does not describe a tensor"):
        weft.verify(f"{module}:smooth", ["3 by 4"])
    with pytest.raises(ValueError, match="has no 'nothing'"):
        weft.verify(f"{module}:nothing")
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    with pytest.raises(ValueError, match="not a record"):
        repeat(bad)


def test_the_command(module: Path, tmp_path: Path) -> None:
    kept = str(tmp_path / "record.json")
    done = command(f"{module}:smooth", "--record", kept)
    assert done.returncode == 0, done.stderr
    assert "passed: worst error" in done.stdout
    again = command(kept)
    assert again.returncode == 0, again.stderr
    assert "the same figures" in again.stdout
    assert command(f"{module}:wrong").returncode == 1
    refused = command(f"{module}:nothing")
    assert refused.returncode == 2 and "has no 'nothing'" in refused.stderr

"""The fuzzer finds what it should find, and nothing in weft.

`WEFT_FUZZ_CALLS` says how many calls `test_public_entries` makes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import fuzz
from ._target import weft, weft_only
from .fuzz_values import Arguments, Parameter, parse

CALLS = int(os.environ.get("WEFT_FUZZ_CALLS", "4000"))
SEED = int(os.environ.get("WEFT_FUZZ_SEED", "1"))


def test_parsing_schemas() -> None:
    schema = parse(
        "sum.dim(Tensor(a!) self, int[1]? dim=[0, 1], bool keepdim=False, *, DType? dtype=None)"
        " -> (Tensor, Tensor)"
    )
    assert schema.name == "sum"
    assert schema.parameters == (
        Parameter("Tensor", "self", True, False),
        Parameter("int[1]?", "dim", False, False),
        Parameter("bool", "keepdim", False, False),
        Parameter("DType?", "dtype", False, True),
    )


def test_the_same_seed_makes_the_same_calls() -> None:
    entries = fuzz.entries()
    for index in range(50):
        first, second = (str(fuzz.Call(entries, f"3:{index}")) for _ in range(2))
        assert first == second or "0x" in first


def test_arguments_cover_the_classes_that_crash_others() -> None:
    shapes, strides = set(), set()
    for index in range(400):
        value = Arguments(str(index)).tensor()
        shapes.add(tuple(value.shape))
        strides.add("overlapping" if 0 in value.stride() else "plain")
        strides.add("contiguous" if value.is_contiguous() else "strided")
    assert () in shapes
    assert any(0 in shape for shape in shapes)
    assert strides >= {"overlapping", "strided", "contiguous"}


def test_a_refused_call_that_writes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaging(value: object, *rest: object, **named: object) -> None:
        with weft.no_grad():
            value.detach().reshape(-1)[:1] += 1  # type: ignore[attr-defined]
        raise RuntimeError("refused, but too late")

    monkeypatch.setattr(fuzz, "IS_WEFT", True)
    monkeypatch.setattr(fuzz.Call, "function", lambda self: damaging)
    entry = fuzz.Entry(parse("zero_(Tensor self) -> Tensor"), "method")
    found = 0
    for index in range(40):
        call = fuzz.Call([entry], f"0:{index}")
        if call.target.numel() == 0 or not call.target.is_contiguous():
            continue
        try:
            call.run()
        except fuzz.Changed:
            found += 1
    assert found > 0


@pytest.mark.native_only  # the sanitizer turns a signal into an exit status
def test_a_crash_is_reported_with_its_call(tmp_path: Path) -> None:
    """A child that dies names the call, and the following calls are still made."""
    program = (
        "import os, sys\n"
        "from tests import fuzz\n"
        "made = fuzz.Call.run\n"
        "def run(self):\n"
        "    if self.source.random.random() < 0.02: os.kill(os.getpid(), 11)\n"
        "    return made(self)\n"
        "fuzz.Call.run = run\n"
        "raise SystemExit(fuzz.main())\n"
    )
    script = tmp_path / "fuzz_with_crashes.py"
    script.write_text(program)
    progress = tmp_path / "progress"
    finished = subprocess.run(
        [sys.executable, str(script), "--child", "--progress", str(progress), "--calls", "2000"],
        env={**os.environ, "PYTHONPATH": search_path()},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=100,
        check=False,
    )
    assert finished.returncode == -11
    number, name = progress.read_text(errors="replace").split(" ", 2)[:2]
    assert int(number) < 2000
    assert name


def search_path() -> str:
    own = os.environ.get("PYTHONPATH")
    return os.pathsep.join([*([own] if own else []), str(fuzz.ROOT)])


@weft_only
def test_every_operation_is_an_entry() -> None:
    names = {entry.schema.name for entry in fuzz.entries()}
    assert {item["name"].partition(".")[0] for item in fuzz.registry() if item["kinds"]} <= names
    composed = list(fuzz.composed_entries())
    assert {"einsum", "cross_entropy", "norm"} <= {entry.schema.name for entry in composed}
    for entry in composed:
        assert callable(fuzz.Call([entry], "0:0").function())


@weft_only
@pytest.mark.native_only
def test_what_is_too_large_raises() -> None:
    for call in (
        lambda: weft.zeros(2**62),
        lambda: weft.empty(2**40, 2**40),
        lambda: weft.ones(1).expand(2**61, 4).contiguous(),
        lambda: weft.eye(2**33),
        lambda: weft.arange(2**50),
        lambda: weft.zeros(2, 2**45).sum(),
    ):
        with pytest.raises((RuntimeError, MemoryError)):
            call()


@weft_only
def test_public_entries() -> None:
    options = fuzz.options_of(["--calls", str(CALLS), "--seed", str(SEED)])
    result = fuzz.fuzz(options)
    assert not result.findings, "\n".join(result.findings)
    assert result.done > CALLS // 5
    assert result.refused > CALLS // 20

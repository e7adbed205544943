"""Whole programs written for PyTorch, run by PyTorch and (unchanged) by weft: the same losses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[2] / "examples" / "torch_programs"


def losses_of(*command: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return [float(number) for number in re.findall(r"loss (-?\d+\.\d+)", done.stdout)]


@pytest.mark.parametrize(
    ("program", "arguments", "tolerance"),
    [
        ("char_gpt.py", ("--steps", "60"), 2e-3),
        ("digits_cnn.py", ("--epochs", "2"), 5e-3),
        # Beyond some episodes one rounding decides an action, and another game is played.
        ("policy_gradient.py", ("--episodes", "20"), 2e-3),
    ],
)
def test_the_same_losses(program: str, arguments: tuple[str, ...], tolerance: float) -> None:
    path = str(PROGRAMS / program)
    with_torch = losses_of(path, *arguments)
    with_weft = losses_of("-m", "weft", "run", path, *arguments)
    assert len(with_torch) >= 3
    assert with_weft == pytest.approx(with_torch, rel=tolerance, abs=tolerance)

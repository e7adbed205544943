"""Processes killed while they save: what is on disk is a whole state, and a run goes on from it.

WEFT_KILLS is how often each test kills, WEFT_KILLS_SEED what decides when.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from . import saving_victim
from ._target import weft
from .saving_samples import bits

pytest.importorskip("weft.keeping")

KILLS = int(os.environ.get("WEFT_KILLS", "8"))
SEED = int(os.environ.get("WEFT_KILLS_SEED", "1"))
# Where the victim finds weft (the same as here), and itself.
PLACES = (os.environ.get("PYTHONPATH"), str(Path(__file__).resolve().parent.parent))


def run_and_kill(arguments: list[str], lines: int, seconds: float) -> list[str]:
    """Starts the victim, kills it so long after so many states; returns what it printed."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "tests.saving_victim", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, PLACES))},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    printed: list[str] = []
    try:
        assert process.stdout.readline() == "ready\n"
        printed = [process.stdout.readline() for _ in range(lines)]
        time.sleep(seconds)
    finally:
        process.send_signal(signal.SIGKILL)
        printed += process.stdout.read().split()
        process.stdout.close()
        process.wait()
    return printed


def test_a_file_is_the_old_state_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "state"
    rng = random.Random(SEED)
    saved_at_all = 0
    for kill in range(KILLS):
        printed = run_and_kill(["save", str(path)], rng.randrange(4), rng.uniform(0.0, 0.02))
        if not path.exists():
            assert not printed
            continue
        state = weft.load(path)
        number = state["number"]
        last = int(printed[-1]) if printed else 0
        # The one that was reported, or the next; without any report the one of another process.
        assert number in (last, last + 1) or not printed, f"kill {kill}"
        assert bits(state) == bits(saving_victim.numbered_state(number))
        saved_at_all += bool(printed)
    assert saved_at_all > KILLS / 4
    left = [name for name in os.listdir(tmp_path) if name != "state"]
    assert len(left) <= KILLS / 4  # only one killed between naming the file and moving it


def test_a_killed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    expected = bits(saving_victim.train(str(tmp_path / "undisturbed")))
    rng = random.Random(SEED)
    folder = tmp_path / "killed"
    killed_within = 0
    for kill in range(KILLS):
        run_and_kill(["train", str(folder)], rng.randrange(18), rng.uniform(0.0, 0.02))
        # Some runs are killed several times before they may end.
        if rng.random() < 0.5:
            continue
        started_at: list[int] = []
        found = saving_victim.train(str(folder), started_at=started_at)
        assert bits(found) == expected, f"kill {kill}, resumed at {started_at[0]}"
        killed_within += 0 < started_at[0] < saving_victim.STEPS
        for name in os.listdir(folder):
            os.unlink(folder / name)
    assert killed_within > 0


def test_a_run_stopped_at_any_step_ends_with_the_same_bits(tmp_path: Path) -> None:
    """Without processes: a state is left from every step in turn."""
    expected = bits(saving_victim.train(str(tmp_path / "whole")))
    # An epoch has seven batches: stops lie within epochs, at their ends and right after.
    for stop in range(2, saving_victim.STEPS, 4):
        folder = str(tmp_path / str(stop))
        saving_victim.train(folder, steps=stop)
        started_at: list[int] = []
        assert bits(saving_victim.train(folder, started_at=started_at)) == expected
        assert started_at == [stop]


def test_without_the_state_of_the_loader_the_bits_differ(tmp_path: Path) -> None:
    """That the tests above can fail: what is not restored shows in the result."""
    expected = bits(saving_victim.train(str(tmp_path / "whole")))
    folder = tmp_path / "half"
    saving_victim.train(str(folder), steps=10)
    (newest,) = [name for name in os.listdir(folder) if "step-10." in name]
    state = weft.load(folder / newest)
    for part in ("loader", "optimizer"):
        other = {**state, "parts": dict(state["parts"])}
        begun = saving_victim.train(str(tmp_path / part), steps=2)
        del begun
        (begun_at,) = os.listdir(tmp_path / part)
        other["parts"][part] = weft.load(tmp_path / part / begun_at)["parts"][part]
        weft.save(other, tmp_path / part / "00000099-step-10.safetensors")
        assert bits(saving_victim.train(str(tmp_path / part))) != expected, part

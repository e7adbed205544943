"""The doctor against its corpus: what it must find, with the line, and where it must be silent.

``tests/doctor/broken`` holds programs with one mistake each, modelled on real threads; the line of
the cause ends in ``# CAUSE: kind``. ``tests/doctor/clean`` holds programs that look suspicious and
are right.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from weft import doctor

FOLDER = Path(__file__).parent / "doctor"
ROOT = FOLDER.parent.parent
BROKEN = sorted((FOLDER / "broken").glob("*.py"))
CLEAN = sorted((FOLDER / "clean").glob("*.py"))
STEPS = 3  # within which a mistake must be named


def run_all(programs: list[Path]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.doctor.runner", *map(str, programs)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def causes(program: Path) -> list[tuple[str, int]]:
    """(kind, line) that a program says are its mistakes."""
    lines = program.read_text().splitlines()
    said = [re.search(r"# CAUSE: ([\w-]+)", line) for line in lines]
    return [(found.group(1), number) for number, found in enumerate(said, 1) if found]


@pytest.fixture(scope="module")
def broken() -> dict[str, Any]:
    return run_all(BROKEN)


@pytest.fixture(scope="module")
def clean() -> dict[str, Any]:
    return run_all(CLEAN)


@pytest.mark.parametrize("program", BROKEN, ids=lambda path: path.stem)
def test_names_the_line_of_the_mistake(program: Path, broken: dict[str, Any]) -> None:
    wanted = causes(program)
    assert wanted, "the program does not say what is wrong with it"
    result = broken[str(program)]
    assert result["error"] is None
    told = [(f["kind"], f["cause"]["file"], f["cause"]["line"]) for f in result["findings"]]
    assert told == [(kind, str(program), line) for kind, line in wanted]
    assert all(f["step"] <= STEPS for f in result["findings"])
    assert all(f["cure"] and f["message"] for f in result["findings"])


@pytest.mark.parametrize("program", CLEAN, ids=lambda path: path.stem)
def test_is_silent_about_what_is_meant(program: Path, clean: dict[str, Any]) -> None:
    assert clean[str(program)] == {"findings": [], "error": None}


def test_every_kind_has_a_broken_program() -> None:
    assert {kind for program in BROKEN for kind, _ in causes(program)} == set(doctor.KINDS)


def run_doctor(program: Path, folder: Path) -> tuple[int, list[Any], str]:
    out = folder / "findings.json"
    done = subprocess.run(
        [sys.executable, "-m", "weft", "doctor", "--json", str(out), str(program)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    return done.returncode, json.loads(out.read_text()), done.stderr


@pytest.mark.parametrize("name", ["layers_in_a_list", "tested_in_training_mode"])
def test_the_command_reports_and_fails(name: str, tmp_path: Path) -> None:
    program = FOLDER / "broken" / f"{name}.py"
    status, found, text = run_doctor(program, tmp_path)
    assert status == 1
    ((kind, line),) = causes(program)
    (finding,) = found
    assert (finding["kind"], finding["cause"]) == (kind, {"file": str(program), "line": line})
    assert f"{program}:{line}" in text and "1 finding in" in text


def test_the_command_is_content_with_a_clean_program(tmp_path: Path) -> None:
    status, found, text = run_doctor(FOLDER / "clean" / "dcgan.py", tmp_path)
    assert (status, found) == (0, [])
    assert "nothing found" in text


@pytest.mark.parametrize("name", ["mse_column_against_row", "detached_encoder", "eval_not_left"])
def test_what_is_said_to_be_meant_is_silent(name: str, tmp_path: Path) -> None:
    text = (FOLDER / "broken" / f"{name}.py").read_text()
    program = tmp_path / f"{name}.py"
    program.write_text(text.replace("# CAUSE: ", "# weft: expected "))
    assert run_all([program])[str(program)] == {"findings": [], "error": None}


def test_short_programs_are_judged_at_their_end(tmp_path: Path) -> None:
    """One step is enough where nothing that follows could mend it."""
    for name in ("layers_in_a_list", "optimizer_of_one_part", "layer_never_used"):
        text = (FOLDER / "broken" / f"{name}.py").read_text()
        program = tmp_path / f"{name}.py"
        program.write_text(re.sub(r"for (\w+) in range\([45]\)", r"for \1 in range(1)", text))
        told = run_all([program])[str(program)]["findings"]
        assert [(f["kind"], f["cause"]["line"]) for f in told] == causes(program)

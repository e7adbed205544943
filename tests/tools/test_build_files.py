"""What is said in two places about the build says the same in both."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "tools" / "requirements"


def requirements(name: str) -> list[str]:
    lines = (REQUIREMENTS / f"{name}.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def pyproject() -> dict[str, dict]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_wheel_is_built_with_what_the_working_tree_is_built_with() -> None:
    backend = [line for line in pyproject()["build-system"]["requires"] if "scikit" not in line]
    # The backend brings cmake and ninja itself.
    by_hand = [line for line in requirements("build") if not line.startswith(("cmake", "ninja"))]
    assert backend == by_hand


def test_no_dependency_is_mandatory() -> None:
    assert pyproject()["project"]["dependencies"] == []


def test_the_reference_is_pinned() -> None:
    assert "torch==2.13.0" in requirements("parity")


def test_every_requirement_list_has_a_stamp_that_a_target_needs() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for file in REQUIREMENTS.glob("*.txt"):
        assert re.search(rf"^\S+:.*\$\(STAMPS\)/{file.stem}\b", makefile, re.MULTILINE), file.name


@pytest.mark.parametrize("target", ["demo", "test", "parity", "bench", "lint", "asan", "wheel"])
def test_make_knows_the_target(target: str) -> None:
    run = subprocess.run(
        ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_an_overlay_shares_sources_and_keeps_built_parts_apart(tmp_path: Path) -> None:
    package, overlay = tmp_path / "weft", tmp_path / "build" / "weft"
    for name in ("__init__.py", "_core.cpython-311.so", "_core.pyi", "gone.py"):
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).touch()
    (package / "lib").mkdir()
    command = [sys.executable, ROOT / "tools" / "overlay.py", package, overlay]

    subprocess.run(command, check=True)
    (overlay / "_core.cpython-311.so").write_text("another build")
    (package / "gone.py").unlink()
    (package / "nn").mkdir()
    subprocess.run(command, check=True)

    found = {entry.name for entry in overlay.iterdir()}
    assert found == {"__init__.py", "_core.pyi", "nn", "_core.cpython-311.so"}
    assert (package / "_core.cpython-311.so").read_text() == ""

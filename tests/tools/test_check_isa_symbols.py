"""The symbol checker finds what two instruction sets would share, in objects compiled for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKER = Path(__file__).resolve().parents[2] / "tools" / "check_isa_symbols.py"

SOURCE = """
namespace weft::cpu {
namespace WEFT_ISA { template <class T> T kept_apart(T x) { return x + 1; } }
template <class T> T shared(T x) { return x + 1; }
namespace WEFT_ISA { int entry(int x) { return CALL(x); } }
}
"""


@pytest.mark.parametrize(
    ("call", "findings"), [("kept_apart", 0), ("shared", 2), ("shared<long>", 2)]
)
def test_weak_symbols_outside_the_namespace(tmp_path: Path, call: str, findings: int) -> None:
    source = tmp_path / "kernel.cpp"
    source.write_text(SOURCE)
    for name in ("avx2", "avx512"):
        folder = tmp_path / "CMakeFiles" / f"weft_isa_{name}.dir"
        folder.mkdir(parents=True)
        flags = ["-O0", f"-DWEFT_ISA={name}", f"-DCALL={call}"]
        subprocess.run(["g++", *flags, "-c", source, "-o", folder / "kernel.o"], check=True)
    run = subprocess.run(
        [sys.executable, CHECKER, tmp_path], capture_output=True, text=True, check=False
    )
    assert run.returncode == (1 if findings else 0)
    assert run.stdout.count("kernel.o defines") == findings

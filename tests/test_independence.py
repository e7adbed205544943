"""Tests outside `tests/parity` run on a machine that has never heard of PyTorch.

The programs of `tests/doctor` say `import torch` as their users would; weft answers for it.
"""

from __future__ import annotations

import ast
from pathlib import Path

HERE = Path(__file__).parent
PROGRAMS = (HERE / "doctor" / "broken", HERE / "doctor" / "clean")


def test_core_tests_do_not_import_torch() -> None:
    importing = []
    for path in HERE.rglob("*.py"):
        if "parity" in path.relative_to(HERE).parts or path.parent in PROGRAMS:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            if any(name.partition(".")[0] == "torch" for name in names):
                importing.append(f"{path.relative_to(HERE)}:{node.lineno}")
    assert not importing

"""The layer checker finds what it must find, in small trees made for the purpose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKER = Path(__file__).resolve().parents[2] / "tools" / "check_layers.py"


def findings(root: Path) -> list[str]:
    """The checker's findings on a tree; its exit status must agree with them."""
    run = subprocess.run(
        [sys.executable, CHECKER, root], capture_output=True, text=True, check=False
    )
    assert run.stderr == ""
    *found, last = run.stdout.splitlines()
    assert last == f"layers: {len(found)} finding(s)"
    assert run.returncode == (1 if found else 0)
    return found


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


def check_one(root: Path, path: str, text: str) -> list[str]:
    write(root, path, text)
    return findings(root)


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("bind/module.cpp", "core/schedule/immediate.h"),
        ("core/schedule/immediate.cpp", "core/autograd/backward.h"),
        ("core/autograd/backward.cpp", "core/ops/list.h"),
        ("core/ops/elementwise.cpp", "core/graph/op.h"),
        ("core/graph/node.h", "core/tensor/tensor.h"),
        ("core/tensor/tensor.h", "core/kernels/cpu/tiles.h"),
        ("core/kernels/cpu/isa/tiles.cpp", "core/math/list.h"),
        ("core/kernels/cuda/launch.cpp", "core/math/list.h"),
    ],
)
def test_an_include_downwards_passes_and_its_reverse_does_not(
    tmp_path: Path, path: str, include: str
) -> None:
    assert check_one(tmp_path / "down", path, f'#include "{include}"') == []
    [finding] = check_one(tmp_path / "up", include, f'#include "{path}"')
    assert "stands above" in finding


def test_a_finding_names_file_line_and_both_folders(tmp_path: Path) -> None:
    text = '#pragma once\n\n  #  include "core/graph/node.h"'
    [finding] = check_one(tmp_path, "core/tensor/tensor.h", text)
    assert finding == (
        "core/tensor/tensor.h:3: core/tensor includes core/graph/node.h: "
        "core/graph stands above core/tensor"
    )


@pytest.mark.parametrize(
    ("path", "line", "reason"),
    [
        ("core/kernels/cpu/a.h", '#include "core/kernels/cuda/b.h"', "know nothing of each other"),
        ("core/kernels/cuda/a.h", '#include "core/kernels/cpu/b.h"', "know nothing of each other"),
        ("core/ops/a.cpp", "#include <Python.h>", "only bind/ sees Python"),
        ("core/ops/a.cpp", "#include <nanobind/nanobind.h>", "only bind/ sees Python"),
        ("core/math/a.h", "#include <cmath>", "NVRTC has no header of the host"),
        ("core/ops/a.cpp", '#include "list.h"', "not a full path"),
        ("core/ops/a.cpp", '#include "bind/tensor.h"', "bind stands above core/ops"),
        ("core/misc/a.cpp", "", "has no place in the order"),
    ],
)
def test_cpp_is_refused(tmp_path: Path, path: str, line: str, reason: str) -> None:
    [finding] = check_one(tmp_path, path, line)
    assert reason in finding


def test_host_headers_and_python_are_free_where_they_belong(tmp_path: Path) -> None:
    write(tmp_path, "core/tensor/a.h", "#include <vector>\n// #include <Python.h>")
    write(tmp_path, "core/kernels/cpu/isa/a.cpp", '#include "core/kernels/cpu/tiles.h"')
    write(tmp_path, "bind/a.cpp", "#include <Python.h>\n#include <nanobind/nanobind.h>")
    assert findings(tmp_path) == []


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for path in ("__init__", "_size", "ops/__init__", "ops/pointwise", "nn/__init__", "func"):
        write(tmp_path, f"weft/{path}.py", "")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("weft/__init__.py", "from weft import nn, ops"),
        ("weft/nn/linear.py", "from weft import ops"),
        ("weft/nn/linear.py", "from weft.nn import module"),
        ("weft/nn/linear.py", "from .. import ops"),
        ("weft/func.py", "import weft.nn"),
        ("weft/ops/norms.py", "from weft._core import Tensor"),
        ("weft/ops/norms.py", "from weft import _core, _size"),
        ("weft/ops/norms.py", "from .pointwise import gelu"),
        ("weft/ops/norms.py", "import math\nfrom collections.abc import Sequence"),
        ("weft/ops/norms.py", "import weft\ndef f(x):\n    return weft.exp(x)"),
        ("weft/nn/linear.py", "import weft\ndef f(x):\n    return weft.ops.gelu(x)"),
        ("weft/ops/norms.py", "def f():\n    from weft import Tensor\n    return Tensor"),
        ("weft/ops/norms.py", "def f():\n    import numpy\n    return numpy"),
        ("weft/ops/norms.py", "if TYPE_CHECKING:\n    from weft.nn import Module"),
    ],
)
def test_python_passes(package: Path, path: str, line: str) -> None:
    assert check_one(package, path, line) == []


@pytest.mark.parametrize(
    ("path", "line", "reason"),
    [
        ("weft/ops/norms.py", "from weft.nn import linear", "nn stands above ops"),
        ("weft/ops/norms.py", "from weft import nn", "nn stands above ops"),
        ("weft/ops/norms.py", "from .. import nn", "nn stands above ops"),
        ("weft/ops/norms.py", "from ..nn import linear", "nn stands above ops"),
        ("weft/ops/norms.py", "import weft.nn.linear as l", "nn stands above ops"),
        ("weft/ops/norms.py", "def f():\n    import weft.nn", "nn stands above ops"),
        ("weft/ops/a.py", "try:\n    import weft.nn\nfinally:\n    pass", "nn stands"),
        ("weft/ops/a.py", "try:\n    pass\nexcept E:\n    import weft.nn", "nn stands"),
        ("weft/ops/a.py", "try:\n    pass\nfinally:\n    import weft.nn", "nn stands"),
        ("weft/ops/a.py", "if TYPE_CHECKING:\n    pass\nelse:\n    import weft.nn", "nn stands"),
        ("weft/ops/norms.py", "import weft\ndef f(x):\n    return weft.nn.Linear(x)", "nn stands"),
        ("weft/ops/norms.py", "from weft import Tensor", "takes a name from weft itself"),
        ("weft/ops/norms.py", "import numpy", "the standard library only"),
        ("weft/_printing.py", "from weft.ops import pointwise", "ops stands above private"),
        ("weft/data.py", "import weft.optim", "know nothing of each other"),
        ("weft/func.py", "import weft.surprise", "surprise has no place in the order"),
        ("weft/surprise.py", "", "surprise has no place in the order"),
    ],
)
def test_python_is_refused(package: Path, path: str, line: str, reason: str) -> None:
    [finding] = check_one(package, path, line)
    assert reason in finding
    assert finding.startswith(f"{path}:")

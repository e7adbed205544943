"""Follows docs/adding-an-operation.md on a copy of the tree: what the page says must work.

Every code block of the page that is preceded by an instruction in a comment is applied:

    <!-- append: FILE -->                     at the end of the file
    <!-- before "TEXT": FILE -->              in front of the last line that contains TEXT
    <!-- after "TEXT": FILE -->               behind the first line that contains TEXT
    <!-- before-last-brace: FILE -->          in front of the last closing brace of a namespace
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(
    r"<!-- (append|before-last-brace|before \"[^\n]*?\"|after \"[^\n]*?\"): (\S+) -->\n"
    r"```\w+\n(.*?)```\n",
    re.DOTALL,
)

USE = """
import weft
from weft.autograd import gradcheck, gradgradcheck

x = weft.tensor([-2.0, -0.5, 0.3, 4.0], dtype=weft.float64, requires_grad=True)
y = weft.softsign(x)
assert y.tolist() == [v / (1 + abs(v)) for v in x.tolist()], y
assert str(y.grad_fn).startswith("<SoftsignBackward0"), y.grad_fn
assert gradcheck(weft.softsign, (x,))
assert gradgradcheck(weft.softsign, (x,))
z = weft.tensor([1.0, 3.0])
assert z.softsign_() is z and z.tolist() == [0.5, 0.75]
assert weft.softsign(weft.tensor([1, 3]), out=weft.empty(0)).tolist() == [0.5, 0.75]
try:
    weft.softsign("no")
except TypeError as error:
    assert "must be Tensor" in str(error)
else:
    raise AssertionError("a string was accepted")

a = weft.tensor([1.0, 2.0], requires_grad=True)
d = weft.squared_distance(a, weft.zeros(2))
assert d.item() == 5.0 and a.squared_distance(a).item() == 0.0
assert d.grad_fn.site[0] == "<string>", d.grad_fn.site
d.backward()
assert a.grad.tolist() == [2.0, 4.0]
assert "squared differences" in weft.squared_distance.__doc__
print("used")
"""


def blocks() -> list[tuple[str, str, str]]:
    page = (ROOT / "docs" / "adding-an-operation.md").read_text()
    found: list[tuple[str, str, str]] = BLOCK.findall(page)
    assert len(found) >= 5, "the page has lost its instructions"
    return found


def apply(where: str, path: Path, text: str) -> None:
    content = path.read_text()
    if where == "append":
        path.write_text(content + "\n\n" + text)
        return
    if where == "before-last-brace":
        at = content.rindex("\n}  // namespace") + 1
    else:
        kind, marker = where.split(" ", 1)
        marker = marker.strip('"')
        assert marker in content, f"{path} does not contain {marker!r}"
        if kind == "after":
            at = content.index("\n", content.index(marker)) + 1
        else:
            at = content.rindex("\n", 0, content.rindex(marker)) + 1
    path.write_text(content[:at] + text + content[at:])


def test_the_instructions_fit_the_tree() -> None:
    for where, file, _ in blocks():
        content = (ROOT / file).read_text()
        if '"' in where:
            assert where.split('"')[1] in content, (where, file)


@pytest.mark.slow
def test_following_the_page(tmp_path: Path) -> None:
    copy = tmp_path / "weft-copy"
    ignored = shutil.ignore_patterns(
        ".git", ".venv", "build", "_core*.so", "__pycache__", ".*_cache", "lib"
    )
    shutil.copytree(ROOT, copy, ignore=ignored)
    for where, file, text in blocks():
        apply(where, copy / file, text)
    build = tmp_path / "build"
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)
    for command in (
        ["cmake", "-S", str(copy), "-B", str(build), "-G", "Ninja", "-DWEFT_WITH_LIBRARIES=OFF"],
        ["ninja", "-C", str(build)],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    used = subprocess.run(
        [sys.executable, "-P", "-c", USE],
        env={**environment, "PYTHONPATH": str(copy)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert used.stdout == "used\n", used.stdout + used.stderr

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
from concurrent.futures import ThreadPoolExecutor
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


BUILD = ROOT / "build" / "dev"


def ninja(*tool: str) -> str:
    return subprocess.run(
        ["ninja", "-C", str(BUILD), "-t", *tool], capture_output=True, text=True, check=True
    ).stdout


def compile_changed(copy: Path, changed: set[str]) -> None:
    """Compiles what depends on the changed files, and links it with the rest of build/dev.

    The commands are the build's own, with the copy in the place of the tree.
    """
    depends: dict[str, list[str]] = {}
    for line in ninja("deps").splitlines():
        if line and not line.startswith(" "):
            output = line.partition(":")[0]
            depends[output] = []
        elif line.strip():
            depends[output].append(os.path.abspath(BUILD / line.strip()))
    touched = {str(ROOT / file) for file in changed}
    stale = [output for output, files in depends.items() if touched & set(files)]
    commands = ninja("commands", "_core").splitlines()
    objects = copy / "objects"

    def compiled(output: str) -> Path:
        to = objects / output
        to.parent.mkdir(parents=True, exist_ok=True)
        command = next(c for c in commands if f" -o {output} " in c)
        command = command.replace(f" -o {output} ", f" -o {to} ").replace(f"{output}.d", f"{to}.d")
        command = re.sub(rf"{re.escape(str(ROOT))}/(?=core/|bind/)", f"{copy}/", command)
        command = command.replace(f"-I{ROOT} ", f"-I{copy} ")
        subprocess.run(command, shell=True, cwd=BUILD, check=True, capture_output=True, text=True)
        return to

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        fresh = dict(zip(stale, pool.map(compiled, stale), strict=True))
    link = next(c for c in reversed(commands) if " -shared " in c)
    link = re.sub(r" -o \S+ ", f" -o {copy / 'weft' / '_core.so'} ", link, count=1)
    for output, to in fresh.items():
        link = link.replace(f" {output} ", f" {to} ")
    assert fresh and f"{copy}/weft" in link
    subprocess.run(link, shell=True, cwd=BUILD, check=True, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.skipif(not (BUILD / "build.ninja").exists(), reason="weft was not built here")
def test_following_the_page(tmp_path: Path) -> None:
    copy = tmp_path / "weft-copy"
    ignored = shutil.ignore_patterns(
        ".git", ".venv", "build", "_core*.so", "__pycache__", ".*_cache", "node_modules"
    )
    shutil.copytree(ROOT, copy, ignore=ignored)
    for where, file, text in blocks():
        apply(where, copy / file, text)
    compile_changed(copy, {file for _, file, _ in blocks()})
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    used = subprocess.run(
        [sys.executable, "-P", "-c", USE],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert used.stdout == "used\n", used.stdout + used.stderr

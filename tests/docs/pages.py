"""Runs the code of a page of documentation and compares what it prints with what the page shows.

A page is one program: its ``python`` blocks share a namespace and run in order, in a folder and a
process of their own. A block without a language right after one is what it prints; ``...`` in it
stands for any text. A block may raise if the page shows the exception. ``title="train.py"`` names
the file that messages speak of and keeps it in the folder; a ``py`` block with a title is kept, not
run. In ``console`` blocks, lines that start with ``$ weft`` are run in that folder; what follows
each is what it prints.

    python -m tests.docs.pages --write docs/tutorial/*.md    puts in what is printed now
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import linecache
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^```(\w*)(.*)\n((?:.*\n)*?)```$", re.MULTILINE)


@dataclasses.dataclass
class Block:
    """A piece of a page that is run, and what the page says it prints."""

    language: str
    title: str
    source: str
    shown: str
    line: int  # in the page
    shown_at: tuple[int, int]  # where the text of `shown` stands in the page


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page that are run, in order."""
    found: list[Block] = []
    fences = list(_FENCE.finditer(page))
    for number, fence in enumerate(fences):
        language, options, text = fence.groups()
        title = re.search(r'title="([^"]*)"', options)
        line = page.count("\n", 0, fence.start()) + 2
        if language == "python":
            shown, place = "", (fence.end(), fence.end())
            after = fences[number + 1] if number + 1 < len(fences) else None
            if after and not after[1] and not page[fence.end() : after.start()].strip():
                shown, place = after[3], after.span(3)
            found.append(Block("python", title[1] if title else "", text, shown, line, place))
        elif language == "py" and title:
            found.append(Block("py", title[1], text, "", line, (fence.end(), fence.end())))
        elif language == "console":
            for command in re.finditer(r"^\$ (weft .*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                start = fence.start(3)
                place = (start + command.start(2), start + command.end(2))
                found.append(Block("console", "", command[1], command[2], line, place))
    return found


def printed_by(blocks: list[Block]) -> list[str]:
    """What each of the blocks prints, in a fresh folder and process."""
    with tempfile.TemporaryDirectory() as folder:
        request = json.dumps([[block.language, block.title, block.source] for block in blocks])
        # Behind what is there: another build of weft may be under test.
        path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT)]).strip(os.pathsep)
        child = subprocess.run(
            [sys.executable, "-m", "tests.docs.pages"],
            input=request,
            capture_output=True,
            text=True,
            timeout=120,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, "COLUMNS": "100"},
            check=False,
        )
    if child.returncode != 0:
        raise RuntimeError(f"the page ended its process with {child.returncode}:\n{child.stderr}")
    printed: list[str] = json.loads(child.stdout.splitlines()[-1])
    return printed


def agrees(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed; ``...`` agrees with any text."""
    pattern = ".*?".join(re.escape(part) for part in shown.rstrip().split("..."))
    return re.fullmatch(pattern, printed.rstrip(), re.DOTALL) is not None


def rewritten(page: str) -> str:
    """The page with what its blocks print now, where that is not what it shows."""
    blocks = blocks_of(page)
    for block, printed in reversed(list(zip(blocks, printed_by(blocks), strict=True))):
        if agrees(block.shown, printed):
            continue
        start, end = block.shown_at
        text = printed.rstrip() + "\n" if printed.strip() else ""
        if start == end and block.language == "python" and page[start - 3 : start] == "```":
            text = f"\n```\n{text}```"
        page = page[:start] + text + page[end:]
    return page


# ---- in the process of the page ------------------------------------------------------------------


def _run_python(source: str, title: str, first_line: int, namespace: dict[str, Any]) -> None:
    file = title or "lesson.py"
    if title:
        Path(title).write_text(source)
    padded = source if title else "\n" * first_line + source
    linecache.cache[file] = (len(padded), None, padded.splitlines(keepends=True), file)
    try:
        exec(compile(padded, file, "exec"), namespace)
    except Exception as error:
        print("".join(traceback.format_exception_only(error)), end="")


def _run_command(command: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", *shlex.split(command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
    )
    print(ended.stdout, end="")


def _run_blocks(blocks: list[list[str]]) -> list[str]:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed, line = [], 0
    for language, title, source in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            if language == "python":
                _run_python(source, title, line, namespace)
                line += 0 if title else source.count("\n") + 1
            elif language == "py":
                Path(title).write_text(source)
            else:
                _run_command(source)
        printed.append(out.getvalue())
    return printed


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        for name in sys.argv[2:]:
            Path(name).write_text(rewritten(Path(name).read_text()))
    else:
        print(json.dumps(_run_blocks(json.loads(sys.stdin.read()))))

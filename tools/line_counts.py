"""Prints files and lines per folder, so that growth is seen.

    python tools/line_counts.py [root]

Folders stand in the order data flows (docs/layout.md). Files over LONG lines are named: a file has
one subject, and such a file may have two.
"""

from __future__ import annotations

import sys
from pathlib import Path

FOLDERS = [
    "weft",
    "web/src",
    "bind",
    "core/schedule",
    "core/autograd",
    "core/ops",
    "core/graph",
    "core/tensor",
    "core/kernels/cpu",
    "core/kernels/cuda",
    "core/math",
    "tests",
    "bench",
    "examples",
    "tools",
]
SUFFIXES = {".c", ".cpp", ".h", ".js", ".py", ".pyi"}
LONG = 800


def count_lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def folder_counts(folder: Path) -> dict[Path, int]:
    """Lines of each source file of a folder."""
    files = sorted(file for file in folder.rglob("*") if file.suffix in SUFFIXES)
    return {file: count_lines(file) for file in files}


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    counts = {folder: folder_counts(root / folder) for folder in FOLDERS}
    everything = {file: lines for folder in counts.values() for file, lines in folder.items()}
    print(f"{'folder':<20}{'files':>8}{'lines':>9}")
    for folder, lines in counts.items():
        print(f"{folder:<20}{len(lines):>8}{sum(lines.values()):>9}")
    print(f"{'total':<20}{len(everything):>8}{sum(everything.values()):>9}")
    for file, lines_of_file in everything.items():
        if lines_of_file > LONG and file.suffix != ".pyi":
            print(f"over {LONG} lines: {file.relative_to(root)} ({lines_of_file})")


if __name__ == "__main__":
    main()

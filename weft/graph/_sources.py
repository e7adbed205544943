"""The text of the lines that recorded nodes."""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from pathlib import PurePath

# Lines shown before and after the one that recorded a node.
AROUND = 4


def snippets(places: Iterable[tuple[str, int]]) -> dict[str, dict[int, str]]:
    """For each file the lines around the given ones; nothing for files that cannot be read."""
    wanted: dict[str, set[int]] = {}
    for file, line in places:
        wanted.setdefault(file, set()).update(range(line - AROUND, line + AROUND + 1))
    found = {}
    for file, numbers in wanted.items():
        lines = linecache.getlines(file)  # notebooks put their cells there
        text = {n: lines[n - 1].rstrip() for n in sorted(numbers) if 1 <= n <= len(lines)}
        if text:
            found[file] = text
    return found


def short_place(site: tuple[str, int, str] | None) -> str:
    """``model.py:12``."""
    return f"{PurePath(site[0]).name}:{site[1]}" if site else ""

"""Makes a second package folder around another build of the extension.

    python tools/overlay.py weft build/asan/package/weft

The new folder links to everything in the package but the built parts (_core*.so, lib/), which the
other build puts there itself. So one tree of Python files serves several builds, and none disturbs
another: PYTHONPATH=build/asan/package picks that one.
"""

from __future__ import annotations

import sys
from pathlib import Path


def is_built(name: str) -> bool:
    return name in ("lib", "__pycache__") or (name.startswith("_core") and name.endswith(".so"))


def make_overlay(package: Path, overlay: Path) -> None:
    overlay.mkdir(parents=True, exist_ok=True)
    wanted = {entry.name for entry in package.iterdir() if not is_built(entry.name)}
    for entry in overlay.iterdir():
        if entry.is_symlink() and entry.name not in wanted:
            entry.unlink()
    for name in wanted:
        link = overlay / name
        if not link.is_symlink():
            link.symlink_to(package.resolve() / name)


if __name__ == "__main__":
    make_overlay(Path(sys.argv[1]), Path(sys.argv[2]))

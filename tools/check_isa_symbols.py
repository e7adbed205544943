"""Refuses code that two instruction sets would share (core/kernels/cpu/isa.h says why).

    python tools/check_isa_symbols.py build/dev

The linker keeps one copy of an inline function or template instantiation, so a symbol that the
AVX-512 objects define weakly may be the one that a machine without AVX-512 calls. Every weak
function in the objects of a set must therefore carry the set's namespace in its name.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

SETS = ("avx2", "avx512")
WEAK_CODE = "W"  # nm's letter; weak data has others, and is the same for every set


def weak_definitions(objects: Iterable[Path]) -> Iterable[tuple[str, str]]:
    """(object, mangled symbol) of every function the linker may take from another object."""
    command = ["nm", "--defined-only", "--print-file-name", *map(str, objects)]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        place, _, symbol = line.rpartition(" ")
        place, _, kind = place.rpartition(" ")
        if kind == WEAK_CODE:
            yield Path(place.rpartition(":")[0]).name, symbol


def shared_symbols(build: Path) -> list[str]:
    found = []
    for name in SETS:
        objects = sorted((build / "CMakeFiles" / f"weft_isa_{name}.dir").rglob("*.o"))
        # Mangled, a namespace is its length and its name.
        mark = f"{len(name)}{name}"
        for file, symbol in weak_definitions(objects) if objects else ():
            if mark not in symbol:
                found.append(f"{name}: {file} defines {symbol} for every instruction set")
    return found


def main() -> None:
    found = shared_symbols(Path(sys.argv[1]))
    for line in found:
        print(line)
    print(f"instruction sets: {len(found)} shared symbol(s)")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

"""Tells CMake where the libraries that weft ships came to lie after `pip install`.

Prints `set(...)` lines for what is there and nothing for what is not: the build then goes on
without it. Reads the packages' records only, so that no library is loaded to find it.
"""

from __future__ import annotations

import os.path
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path


def installed_files(package: str) -> list[Path]:
    try:
        found = distribution(package)
    except PackageNotFoundError:
        return []
    # abspath, not resolve: the name a library is asked for must survive, even if it is a link.
    return [Path(os.path.abspath(found.locate_file(file))) for file in found.files or []]


def first(files: list[Path], ending: str) -> Path | None:
    return next((file for file in files if file.as_posix().endswith(ending)), None)


def report(name: str, library: Path | None, header: Path | None, files: list[Path]) -> None:
    """A library without its headers, or headers without their library, are of no use."""
    if library is None or header is None or not library.exists() or not header.exists():
        return
    notices = {"LICENSE", "LICENSE.txt", "THIRD-PARTY-PROGRAMS"}
    licenses = " ".join(f'"{file.as_posix()}"' for file in files if file.name in notices)
    print(f'set({name}_LIBRARY "{library.as_posix()}")')
    print(f'set({name}_INCLUDE "{header.parent.as_posix()}")')
    print(f"set({name}_LICENSES {licenses})")


def main() -> None:
    onednn = installed_files("onednn-cpu-gomp")
    headers = installed_files("onednn-devel-cpu-gomp")
    report("ONEDNN", first(onednn, "/libdnnl.so.3"), first(headers, "/include/dnnl.h"), onednn)
    openblas = installed_files("scipy-openblas32")
    library = first(openblas, "/libscipy_openblas.so")
    report("OPENBLAS", library, first(openblas, "/include/cblas.h"), openblas)


if __name__ == "__main__":
    main()

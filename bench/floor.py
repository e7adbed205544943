"""The floor: a bare extension type (floor_ext.c), built on the fly with the system's compiler.

It answers to the few names that the base cases use, so the very same cases run on it. What lies
between its figures and weft's is what features cost, and what could still be won.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

from bench.case import Framework

SOURCE = Path(__file__).with_name("floor_ext.c")
BUILD_FOLDER = Path(__file__).with_name(".build")
FLAGS = ["-O3", "-std=c11", "-shared", "-fPIC", "-fno-math-errno", "-Wall", "-Wextra"]


def build() -> Path:
    """Compiles the extension where source, compiler flags or Python changed since the last time."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
    mark = hashlib.sha256(SOURCE.read_bytes() + " ".join(FLAGS).encode()).hexdigest()[:16]
    library = BUILD_FOLDER / mark / f"floor_ext{suffix}"
    if library.exists():
        return library
    compiler = (
        shlex.split(os.environ.get("CC", ""))
        or [path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))][:1]
    )
    if not compiler:
        raise RuntimeError("the floor needs a C compiler (cc, gcc or clang), and there is none")
    library.parent.mkdir(parents=True, exist_ok=True)
    # Compiled under another name and renamed: a second run never loads half a file.
    unfinished = library.with_suffix(f".{os.getpid()}.tmp")
    include = sysconfig.get_paths()["include"]
    done = subprocess.run(
        [*compiler, *FLAGS, f"-I{include}", str(SOURCE), "-o", str(unfinished), "-lm"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the floor did not compile: {done.stderr.strip()}")
    unfinished.rename(library)
    return library


def load() -> Framework:
    """The extension as a module with PyTorch's names."""
    spec = importlib.util.spec_from_file_location("floor_ext", build())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

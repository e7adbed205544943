"""Runs programs under the doctor, one after the other in one process, and prints what was found.

``python -m tests.doctor.runner FILE...`` writes one JSON object: for each file its findings, and
the error it ended with, if any. What a program prints goes nowhere.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import runpy
import sys
import warnings
from typing import Any

import weft
from weft import doctor


def findings_of(path: str) -> dict[str, Any]:
    """What the doctor says about one program."""
    doctor.clear()
    error = None
    names: dict[str, Any] = {}  # keeps the program's models until they have been judged
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            sys.argv = [path]
            names = runpy.run_path(path, run_name="__main__")
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
        doctor.finish()
        names.clear()
    return {"findings": [finding.as_json() for finding in doctor.findings()], "error": error}


def main(paths: list[str]) -> None:
    """Writes the findings of all programs."""
    weft.as_torch()
    results = {}
    for path in paths:
        results[path] = findings_of(path)
        gc.collect()  # one program's modules must not be looked at in the next
    json.dump(results, sys.stdout, indent=1)


if __name__ == "__main__":
    main(sys.argv[1:])

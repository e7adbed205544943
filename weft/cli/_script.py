"""Running somebody's script as Python itself would."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from typing import Any


def add_script_arguments(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """`script.py args...`: everything after the script belongs to the script."""
    parser.add_argument("script", nargs=None if required else "?", help="the program to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its own arguments")


def run_script(script: str, arguments: list[str]) -> dict[str, Any]:
    """Runs it as `__main__`, with its folder first on the path. Returns its names, which live as
    long as the result does."""
    if not os.path.isfile(script):
        raise SystemExit(f"weft: there is no file {script!r}")
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    return runpy.run_path(script, run_name="__main__")

"""`weft run script.py args...`: a program that says `import torch`, on weft."""

from __future__ import annotations

import argparse

from weft.cli._script import add_script_arguments, run_script
from weft.torch_names import as_torch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The script and its arguments."""
    add_script_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the script with torch's names resolving to weft."""
    as_torch()
    run_script(arguments.script, arguments.arguments)
    return 0

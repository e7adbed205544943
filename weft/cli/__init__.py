"""The command line: `weft COMMAND ...`, or `python -m weft COMMAND ...`."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

__all__ = ["main"]

# One module each, with `add_arguments(parser)` and `run(arguments) -> exit status`.
_COMMANDS = {
    "demo": "A tree-structured network: made, checked, cured, trained and looked at.",
    "run": "Runs a program written for PyTorch on weft.",
    "verify": "Checks gradients and keeps the record; repeats a record.",
    "doctor": "Runs a program and lists the silent failures of its training.",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit status."""
    import weft

    parser = argparse.ArgumentParser(
        prog="weft", description="Automatic differentiation that can be looked at and checked."
    )
    parser.add_argument("--version", action="version", version=f"weft {weft.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    given = list(sys.argv[1:] if arguments is None else arguments)
    for name, purpose in _COMMANDS.items():
        command = commands.add_parser(name, help=purpose, description=purpose)
        if name in given[:1]:  # the others' modules are not even imported
            module = importlib.import_module(f"weft.cli.{name}")
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    parsed = parser.parse_args(given)
    return int(parsed.run(parsed) or 0)

"""`weft doctor script.py args...`: runs a program under the doctor and lists what it found."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
import traceback
import warnings
from typing import Any

from weft.cli._script import add_script_arguments, run_script


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The script and its arguments, and what to write."""
    parser.add_argument("--json", metavar="OUT", help="write the findings there as a JSON list")
    parser.add_argument("--kinds", action="store_true", help="list all kinds of findings and stop")
    add_script_arguments(parser, required=False)


def run(arguments: argparse.Namespace) -> int:
    """Runs the script; the status is 1 if something was found, else the script's own."""
    from weft import doctor

    if arguments.kinds:
        print("\n".join(_kinds(doctor.KINDS)))
        return 0
    if arguments.script is None:
        raise SystemExit("weft doctor: which program? weft doctor script.py args...")
    status = _run_to_the_end(arguments.script, arguments.arguments)
    found = doctor.findings()
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump([finding.as_json() for finding in found], out, indent=2)
            out.write("\n")
    sys.stdout.flush()
    for finding in found:
        print(f"\n{finding}", file=sys.stderr)
    count = len(found)
    summary = "nothing found" if not count else f"{count} finding{'s' if count > 1 else ''}"
    print(f"\nweft doctor: {summary} in {arguments.script}", file=sys.stderr)
    return 1 if found else status


def _run_to_the_end(script: str, arguments: list[str]) -> int:
    """The script's exit status. What it raises is shown as Python would; findings come after it."""
    from weft import doctor
    from weft.torch_names import as_torch

    as_torch()
    # Told once, at the end; in the middle of the program's own output they would be lost.
    warnings.simplefilter("ignore", doctor.DoctorWarning)
    status: Any = 0
    names: dict[str, Any] = {}  # the program's models, which are judged at its end
    try:
        names = run_script(script, arguments)
    except SystemExit as end:
        status = end.code
        if status is not None and not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        traceback.print_exc()
        status = 1
    doctor.finish()
    names.clear()
    return int(status or 0)


def _kinds(kinds: dict[str, str]) -> list[str]:
    lines = []
    for kind, meaning in kinds.items():
        lines.append(kind)
        lines += textwrap.wrap(meaning, 76, initial_indent="    ", subsequent_indent="    ")
    return lines

"""`weft demo`: a minute's tour."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the demo writes."""
    parser.add_argument(
        "--out", default="weft-demo", metavar="FOLDER", help="for the records and the page"
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the demo."""
    from weft.demo import main

    return main(arguments.out)

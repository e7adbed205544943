"""`weft verify module.py:function`: a gradient check that keeps its record, and repeats it."""

from __future__ import annotations

import argparse
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to check and how."""
    parser.add_argument("target", help="module.py:function, module.py:Model, or a record.json")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="SHAPE",
        help='an argument, such as "[3, 4]" or "int64[5] < 10"; once per argument',
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", default="float64", choices=("float64", "float32"))
    parser.add_argument("--step", type=float, help="how far an element is moved to either side")
    parser.add_argument("--atol", type=float)
    parser.add_argument("--rtol", type=float)
    parser.add_argument("--samples", type=int, default=256, help="elements compared per input")
    parser.add_argument("--second-order", action="store_true", help="check second derivatives too")
    parser.add_argument("--record", metavar="FILE", help="where to keep the record")


def run(arguments: argparse.Namespace) -> int:
    """Checks and prints; the status is 1 if something is wrong or not the same."""
    import weft
    from weft.check import repeat, verify

    try:
        if arguments.target.endswith(".json"):
            before, after, changed = repeat(arguments.target)
            print(after)
            for difference in changed:
                print(f"not the same: {difference}")
            if not changed:
                print(f"the same figures as recorded on {before.environment.get('date')}")
            return 0 if after.passed and not changed else 1
        record = verify(
            arguments.target,
            arguments.input or None,
            seed=arguments.seed,
            dtype=getattr(weft, arguments.dtype),
            step=arguments.step,
            atol=arguments.atol,
            rtol=arguments.rtol,
            samples=arguments.samples,
            second_order=arguments.second_order,
            record=arguments.record,
        )
    except ValueError as error:
        print(f"weft verify: {error}", file=sys.stderr)
        return 2
    print(record)
    if arguments.record:
        print(f"kept in {arguments.record}; repeat it with: weft verify {arguments.record}")
    return 0 if record.passed else 1

"""Writes docs/reference/: one page per family of operations, and an index, from the registry.

python tools/make_reference.py           writes them
python tools/make_reference.py --check   exits with 1 if they are not what it would write
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tools.make_stubs import ROOT, write_or_check
from tools.operations import Operation, installed_operations
from tools.signatures import Signature, forms

FOLDER = ROOT / "docs" / "reference"
LINE_LENGTH = 100
DERIVATIVE = {
    True: "Differentiable.",
    False: "Has no gradient.",
    None: "Made of other operations, and differentiable where they are.",
}


def plain(text: str) -> str:
    """As a reader writes it: the stubs' names for shadowed builtins mean nothing here."""
    return re.sub(r"\b_(int|float|bool|dtype|device|layout|memory_format)\b", r"\1", text)


def call(prefix: str, signature: Signature) -> str:
    parameters = [
        plain(parameter).replace("__", "")
        for parameter in signature.parameters
        if parameter != "self"
    ]
    result = plain(signature.result).replace("Self", "Tensor")
    line = f"{prefix}{signature.name}({', '.join(parameters)}) -> {result}"
    if len(line) <= LINE_LENGTH:
        return line
    inner = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"{prefix}{signature.name}(\n{inner}) -> {result}"


def calls(operation: Operation) -> list[str]:
    """Every way to call it, functions first."""
    module = "weft." + "".join(f"{part}." for part in operation.name.split(".")[:-1])
    return [
        *(call(module, signature) for signature in forms(operation, "function")),
        *(call("weft.", signature) for signature in forms(operation, "inplace function")),
        *(call("weft.nn.functional.", signature) for signature in forms(operation, "functional")),
        *(call("Tensor.", signature) for signature in forms(operation, "method")),
        *(call("Tensor.", signature) for signature in forms(operation, "inplace")),
    ]


def section(operation: Operation) -> str:
    derivative = DERIVATIVE[operation.differentiable]
    text = "\n\n".join(part for part in (operation.doc, derivative) if part)
    listing = "\n".join(calls(operation))
    return f"## {operation.name}\n\n```python\n{listing}\n```\n\n{text}\n"


def page(family: str, operations: list[Operation]) -> str:
    sections = "\n".join(map(section, operations))
    return f"# {family}\n\n<!-- Written by tools/make_reference.py. -->\n\n{sections}"


def anchor(name: str) -> str:
    return name.replace(".", "").lower()


def index(families: dict[str, list[Operation]]) -> str:
    lines = ["# Operations", "", "<!-- Written by tools/make_reference.py. -->", ""]
    for family, operations in families.items():
        links = ", ".join(f"[{op.name}]({family}.md#{anchor(op.name)})" for op in operations)
        lines += [f"**[{family}]({family}.md)** ({len(operations)}): {links}", ""]
    return "\n".join(lines)


def reference(operations: list[Operation]) -> dict[Path, str]:
    families: dict[str, list[Operation]] = {}
    for operation in sorted(operations, key=lambda operation: (operation.family, operation.name)):
        families.setdefault(operation.family, []).append(operation)
    pages = {FOLDER / f"{family}.md": page(family, ops) for family, ops in families.items()}
    return {FOLDER / "README.md": index(families), **pages}


def main() -> None:
    only_check = "--check" in sys.argv[1:]
    operations = [one for one in installed_operations() if not one.name.startswith("_")]
    files = reference(operations)
    problems = write_or_check(files, only_check)
    left_over = sorted(set(FOLDER.glob("*.md")) - set(files))
    for path in left_over:
        if only_check:
            problems.append(f"{path.relative_to(ROOT)} is of no family: run `make stubs`")
        else:
            path.unlink()
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()

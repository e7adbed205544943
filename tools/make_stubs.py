"""Writes weft/_core.pyi and weft/__init__.pyi from the registry.

    python tools/make_stubs.py           writes them
    python tools/make_stubs.py --check   exits with 1 if they are not what it would write, or if
                                         weft has public names that they have not, or the reverse

What is not an operation stands in the templates in tools/stubs/, which mark where the generated
lines go. A name that a template defines itself is left to the template.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from tools.operations import Operation, installed_operations
from tools.signatures import Signature, forms, named_tuple, one_result

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "tools" / "stubs"
MARK = re.compile(r"^( *)# <generated (\w+)>\n", re.MULTILINE)
LINE_LENGTH = 100


def layout(signature: Signature, indent: str) -> str:
    """As `ruff format` would write it."""
    line = f"{indent}{signature}"
    if len(line) <= LINE_LENGTH:
        return f"{line}\n"
    inner = f"{indent}    {', '.join(signature.parameters)}"
    if len(inner) > LINE_LENGTH or signature.parameters[-1].startswith("*"):
        inner = "\n".join(f"{indent}    {parameter}," for parameter in signature.parameters)
    return f"{indent}def {signature.name}(\n{inner}\n{indent}) -> {signature.result}: ...\n"


def definitions(found: list[Signature], indent: str) -> str:
    mark = f"{indent}@overload\n" if len(found) > 1 else ""
    return "".join(mark + layout(signature, indent) for signature in found)


def result_classes(operation: Operation) -> str:
    """The named tuples that an operation's overloads return, each once."""
    classes: dict[str, str] = {}
    for overload in operation.overloads:
        name = named_tuple(overload.schema)
        if name:
            fields = "".join(
                f"    {result.name}: {one_result(result)}\n" for result in overload.schema.results
            )
            classes[name] = f"class {name}(NamedTuple):\n{fields}\n"
    return "".join(classes.values())


def defined_names(template: str, indent: str) -> set[str]:
    return set(re.findall(rf"^{indent}(?:def |class )?(\w+)(?=[(:])", template, re.MULTILINE))


def fill(template: str, parts: dict[str, dict[str, str]]) -> str:
    """Puts each part's definitions, sorted by name, at its mark."""

    def lines(mark: re.Match[str]) -> str:
        own = defined_names(template, mark[1])
        generated = parts[mark[2]]
        return "".join(text for name, text in sorted(generated.items()) if name not in own)

    return MARK.sub(lines, template)


def core_stub(operations: Iterable[Operation], template: str) -> str:
    functions: dict[str, str] = {}
    methods: dict[str, str] = {}
    classes: dict[str, str] = {}
    for operation in operations:
        # linalg.norm and the like are Python with annotations of its own.
        if "." in operation.name:
            continue
        classes[operation.name] = result_classes(operation)
        functions[operation.name] = definitions(forms(operation, "function"), "")
        methods[operation.name] = definitions(forms(operation, "method"), "    ")
        methods[f"{operation.name}_"] = definitions(forms(operation, "inplace"), "    ")
    return fill(template, {"classes": classes, "methods": methods, "functions": functions})


def package_stub(operations: Iterable[Operation], template: str) -> str:
    exports = {
        operation.name: f"from weft._core import {operation.name} as {operation.name}\n"
        for operation in operations
        if operation.has("function") and "." not in operation.name
    }
    return fill(template, {"exports": exports})


def stubs(operations: list[Operation]) -> dict[Path, str]:
    core = (TEMPLATES / "_core.pyi.in").read_text(encoding="utf-8")
    package = (TEMPLATES / "__init__.pyi.in").read_text(encoding="utf-8")
    return {
        ROOT / "weft" / "_core.pyi": core_stub(operations, core),
        ROOT / "weft" / "__init__.pyi": package_stub(operations, package),
    }


def write_or_check(files: dict[Path, str], only_check: bool) -> list[str]:
    """Writes what changed, or says what would be written."""
    stale = [
        path
        for path, text in files.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if only_check:
        return [f"{path.relative_to(ROOT)} is stale: run `make stubs`" for path in stale]
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path], encoding="utf-8")
    return []


def stubbed_names(body: list[ast.stmt]) -> set[str]:
    """The public names that statements of a stub define."""
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.ImportFrom):
            names.update(alias.asname for alias in node.names if alias.asname)
    return {name for name in names if not name.startswith("_")}


def differences(where: str, body: list[ast.stmt], thing: object) -> list[str]:
    """Public names that only a stub has, or only the thing it describes."""
    stubbed, real = stubbed_names(body), {name for name in dir(thing) if name[0] != "_"}
    missing = [f"{where}.{name} is in no stub: add it to tools/stubs" for name in real - stubbed]
    invented = [f"{where}.{name} is only in a stub, not in weft" for name in stubbed - real]
    return sorted(missing + invented)


def compare_with_weft(files: dict[Path, str]) -> list[str]:
    import weft

    core, package = (ast.parse(text) for text in files.values())
    [tensor] = [n for n in core.body if isinstance(n, ast.ClassDef) and n.name == "Tensor"]
    return [
        *differences("weft", package.body, weft),
        *differences("Tensor", tensor.body, weft.Tensor),
    ]


def main() -> None:
    only_check = "--check" in sys.argv[1:]
    files = stubs(installed_operations())
    problems = write_or_check(files, only_check)
    if only_check:
        problems += compare_with_weft(files)
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()

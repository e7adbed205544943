"""Writes weft/_core.pyi, weft/__init__.pyi and those of the namespaces of operations.

    python tools/make_stubs.py           writes them
    python tools/make_stubs.py --check   exits with 1 if they are not what it would write, or if
                                         weft has public names that they have not, or the reverse

Operations come from the registry, and what a module imports for its users from that module. The
rest stands in the templates in tools/stubs/, which mark where the generated lines go. A name that
a template defines itself is left to the template.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from tools.operations import NAMESPACES, Operation, installed_operations
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


def result_classes(operation: Operation) -> dict[str, str]:
    """The named tuples that an operation's overloads return."""
    classes: dict[str, str] = {}
    for overload in operation.overloads:
        name = named_tuple(overload.schema)
        if name:
            fields = "".join(
                f"    {result.name}: {one_result(result)}\n" for result in overload.schema.results
            )
            classes[name] = f"class {name}(NamedTuple):\n{fields}\n"
    return classes


def defined_names(template: str, indent: str) -> set[str]:
    return set(re.findall(rf"^{indent}(?:def |class )?(\w+)(?=[(:])", template, re.MULTILINE))


def fill(template: str, parts: dict[str, dict[str, str]]) -> str:
    """Puts each part's definitions, sorted by name, at its mark."""

    def lines(mark: re.Match[str]) -> str:
        own = defined_names(template, mark[1])
        generated = parts[mark[2]]
        return "".join(text for name, text in sorted(generated.items()) if name not in own)

    return MARK.sub(lines, template)


def core_stub(
    operations: Iterable[Operation],
    template: str,
    internals: Iterable[str] = (),
    several_results: Iterable[str] = (),
) -> str:
    functions: dict[str, str] = {}
    methods: dict[str, str] = {}
    classes: dict[str, str] = {}
    for operation in operations:
        classes |= result_classes(operation)
        if "." in operation.name:
            continue
        if in_core(operation):
            functions[operation.name] = definitions(forms(operation, "function"), "")
        for name, kind in ((operation.name, "method"), (f"{operation.name}_", "inplace")):
            if operation.has(kind):
                methods[name] = definitions(forms(operation, kind), "    ")
    parts = {
        "classes": classes,
        "methods": methods,
        "functions": functions,
        "lookups": {"__getitem__ of some": lookup(several_results)},
        "internals": {name: f"{name}: Callable[..., Any]\n" for name in internals},
    }
    return fill(template, parts)


def lookup(names: Iterable[str]) -> str:
    """What _core.ops gives for the operations that do not return one tensor."""
    listed = "".join(f'            "{name}",\n' for name in names)
    return (
        "    @overload\n    def __getitem__(\n        self,\n        name: Literal[\n"
        f"{listed}        ],\n    ) -> Callable[..., Any]: ...\n"
    )


def in_core(operation: Operation) -> bool:
    """Whether weft._core has it as a function: not if it is written in Python or a second name."""
    return not operation.in_python("function") and any(
        overload.schema.name == operation.name for overload in operation.overloads
    )


def namespace_stub(operations: Iterable[Operation], namespace: str, template: str) -> str:
    """The functions of weft ("") or of one of the namespaces, and what it imports."""
    exports: dict[str, str] = {}
    functions: dict[str, str] = {}
    for operation in operations:
        within, _, name = operation.name.rpartition(".")
        found: list[Signature] = []
        if within == namespace:
            found = forms(operation, "function")
        elif namespace == "nn.functional" and not within:
            found = forms(operation, "functional")
        if found and not namespace and in_core(operation):
            exports[name] = f"from weft._core import {name} as {name}\n"
        elif found:
            functions[name] = definitions(found, "")
        if within == namespace and operation.has("inplace function"):
            functions[f"{name}_"] = definitions(forms(operation, "inplace function"), "")
    results = sorted(set(re.findall(r"\b_\w+_result\b", "".join(functions.values()))))
    imports = reexports(stub_path(namespace).with_suffix(".py"))
    for name in imports:
        functions.pop(name, None)
    parts = {
        "imports": imports,
        "submodules": {
            **{name: submodule_line(name) for name in submodules()},
            **lazy_functions(),
        },
        "exports": exports,
        "results": {name: f"from weft._core import {name}\n" for name in results},
        "functions": functions,
    }
    return fill(template, parts)


def import_line(module: str | None, name: str, other_name: str) -> str:
    line = f"from {module} import {name} as {other_name}\n"
    if len(line) <= LINE_LENGTH + 1:
        return line
    return f"from {module} import (\n    {name} as {other_name},\n)\n"


def reexports(module: Path) -> dict[str, str]:
    """What a module imports from others of weft under a public name."""
    lines: dict[str, str] = {}
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("weft"):
            for alias in node.names:
                name = alias.asname or alias.name
                if not name.startswith("_"):
                    lines[name] = import_line(node.module, alias.name, name)
    return lines


def submodules() -> list[str]:
    """Those that are imported when they are first asked for."""
    import weft

    return sorted(name for name in weft._SUBMODULES if name in dir(weft))


def submodule_line(name: str) -> str:
    """Of a module that is called like a function of its own name, that function."""
    import importlib

    if callable(importlib.import_module(f"weft.{name}")):
        return import_line(f"weft.{name}", name, name)
    return f"from weft import {name} as {name}\n"


def lazy_functions() -> dict[str, str]:
    """Functions that live in submodules which are imported when they are first asked for."""
    import weft

    return {name: import_line(module, name, name) for name, module in weft._LAZY.items()}


def with_several_results() -> list[str]:
    from weft import _core

    entries = _core.registry()
    # A private one may return what no schema says.
    return sorted(
        {e["name"] for e in entries if e["name"][0] == "_" or not e["schema"].endswith("-> Tensor")}
    )


def core_internals() -> list[str]:
    """What only weft's own Python uses of the core."""
    from weft import _core

    return sorted(n for n in vars(_core) if n.startswith("_") and not n.startswith("__"))


def stub_path(namespace: str) -> Path:
    return ROOT / "weft" / f"{namespace.replace('.', '/') or '__init__'}.pyi"


def stubs(operations: list[Operation]) -> dict[Path, str]:
    core, package, namespace = (
        (TEMPLATES / f"{name}.pyi.in").read_text(encoding="utf-8")
        for name in ("_core", "__init__", "namespace")
    )
    return {
        ROOT / "weft" / "_core.pyi": core_stub(
            operations, core, core_internals(), with_several_results()
        ),
        stub_path(""): namespace_stub(operations, "", package),
        **{stub_path(name): namespace_stub(operations, name, namespace) for name in NAMESPACES},
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
    stubbed = stubbed_names(body)
    real = {name for name in dir(thing) if name[0] != "_" and name != "TYPE_CHECKING"}
    missing = [f"{where}.{name} is in no stub: add it to tools/stubs" for name in real - stubbed]
    invented = [f"{where}.{name} is only in a stub, not in weft" for name in stubbed - real]
    return sorted(missing + invented)


def compare_with_weft(files: dict[Path, str]) -> list[str]:
    import weft

    core = ast.parse(files[ROOT / "weft" / "_core.pyi"])
    [tensor] = [n for n in core.body if isinstance(n, ast.ClassDef) and n.name == "Tensor"]
    found = differences("Tensor", tensor.body, weft.Tensor)
    for namespace in ("", *NAMESPACES):
        name = f"weft.{namespace}".rstrip(".")
        body = ast.parse(files[stub_path(namespace)]).body
        found += differences(name, body, importlib.import_module(name))
    return found


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

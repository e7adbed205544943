"""Refuses an include or import from a folder to one above it (docs/layout.md has the order).

    python tools/check_layers.py [root]

Prints `file:line: what is wrong` for each finding and exits with 1 if there is one.

C++: a folder of CPP_ORDER includes only from itself and from folders below it, by the full path
from the root. The kernels of one device know nothing of another device's. Only bind/ sees Python,
and core/math/ includes nothing of the host, because NVRTC compiles it too.

Python: a part of weft (a subpackage or module right below it) imports only from itself and from
parts below it. `import weft` is free, as a forward declaration is in C++: then every `weft.nn` in
the text counts as an import of weft.nn. So is anything under `if TYPE_CHECKING:`. Nothing outside
the standard library is imported while weft is being imported.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# From the top down. Folders on one line know nothing of each other.
CPP_ORDER: list[tuple[str, ...]] = [
    ("bind",),
    ("core/schedule",),
    ("core/autograd",),
    ("core/ops",),
    ("core/graph",),
    ("core/tensor",),
    ("core/kernels/cpu", "core/kernels/cuda"),
    ("core/math",),
]
PYTHON_ORDER: list[tuple[str, ...]] = [
    ("cli",),
    ("demo",),
    ("torch_names",),
    ("dist", "export", "doctor", "check", "graph"),
    ("testing",),
    ("keeping",),
    ("data", "optim"),
    ("func",),
    ("nn",),
    ("utils",),
    ("autograd",),
    ("backends", "cuda", "fft", "linalg", "overrides", "random", "return_types", "special"),
    ("ops",),
    ("private modules",),
    ("_core",),
]
FACE = "weft"
WHOLE = "*"  # stands for a name that weft itself re-exports

PYTHON_HEADERS = re.compile(r"^(Python\.h|nanobind/.*|structmember\.h|frameobject\.h)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


@dataclass(frozen=True)
class Finding:
    file: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


def level(order: list[tuple[str, ...]], name: str) -> int | None:
    """How far from the top `name` stands, None if it has no place."""
    return next((depth for depth, names in enumerate(order) if name in names), None)


# ---- C++ -----------------------------------------------------------------------------------------


def cpp_folder(path: str) -> str | None:
    """The folder of CPP_ORDER that a path from the root lies in."""
    names = (name for line in CPP_ORDER for name in line)
    return next((name for name in names if path.startswith(name + "/")), None)


def check_include(folder: str, bracket: str, target: str) -> str | None:
    """What is wrong with a file of `folder` including `target`, None if nothing is."""
    if bracket == "<":
        if folder != "bind" and PYTHON_HEADERS.match(target):
            return f"{folder} includes <{target}>: only bind/ sees Python"
        if folder == "core/math":
            return f"core/math includes <{target}>: NVRTC has no header of the host"
        return None
    other = cpp_folder(target)
    if other is None:
        return f'"{target}" is not a full path into one of the folders of the order'
    if other == folder:
        return None
    here, there = level(CPP_ORDER, folder), level(CPP_ORDER, other)
    assert here is not None and there is not None
    if there == here:
        return f"{folder} includes {target}: {folder} and {other} know nothing of each other"
    if there < here:
        return f"{folder} includes {target}: {other} stands above {folder}"
    return None


def check_cpp(root: Path) -> Iterator[Finding]:
    for top in ("bind", "core"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in (".h", ".cpp"):
                continue
            path = file.relative_to(root)
            folder = cpp_folder(path.as_posix())
            if folder is None:
                yield Finding(path, 1, "this folder has no place in the order: add it to CPP_ORDER")
                continue
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                include = INCLUDE.match(line)
                problem = check_include(folder, *include.groups()) if include else None
                if problem:
                    yield Finding(path, number, problem)


# ---- Python --------------------------------------------------------------------------------------


def python_part(module: str) -> str:
    """The part of weft a module belongs to: weft.nn.linear is of nn, weft._size a private one."""
    segments = module.split(".")
    if len(segments) == 1 or segments[1].startswith("__"):
        return FACE
    if segments[1].startswith("_") and segments[1] != "_core":
        return "private modules"
    return segments[1]


def module_name(path: Path) -> str:
    """weft/nn/__init__.py is weft.nn, weft/nn/linear.py is weft.nn.linear."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_for_types_only(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imports(body: list[ast.stmt], inside: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """Every import statement, and whether a function defers it. Types-only blocks are left out."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, inside
            continue
        deferred = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        fields = ["orelse"] if is_for_types_only(node) else ["body", "orelse", "finalbody"]
        for field in fields:
            yield from imports(getattr(node, field, []), deferred)
        for handler in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
            yield from imports(handler.body, deferred)


def targets(node: ast.stmt, importer: Path, known: set[str]) -> list[str]:
    """The full names of the modules a statement imports; `known` tells modules from attributes."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    assert isinstance(node, ast.ImportFrom)
    base = node.module or ""
    if node.level:
        package = importer.with_suffix("").parts[: -node.level]
        base = ".".join([*package, base] if base else package)
    if base != FACE:
        return [base]
    # `from weft import nn` is about weft.nn, `from weft import Tensor` about the whole package.
    names = (f"{FACE}.{alias.name}" for alias in node.names)
    return [name if name in known else f"{FACE}.{WHOLE}" for name in names]


def uses(tree: ast.Module, known: set[str]) -> Iterator[tuple[int, str]]:
    """Every `weft.part` in the text that names a module, as (line, module)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == FACE:
            module = f"{FACE}.{node.attr}"
            if module in known:
                yield node.lineno, module


def check_import(part: str, target: str, deferred: bool) -> str | None:
    """What is wrong with `part` of weft importing module `target`, None if nothing is."""
    top = target.split(".")[0]
    if top != FACE:
        if deferred or top in sys.stdlib_module_names:
            return None
        return f"imports {target} at module level: weft needs the standard library only"
    other = python_part(target)
    if part in (FACE, other) or other == FACE:
        return None
    if other == WHOLE:
        if deferred:
            return None
        return f"{part} takes a name from weft itself: import the module that defines it"
    here, there = level(PYTHON_ORDER, part), level(PYTHON_ORDER, other)
    if there is None:
        return f"weft.{other} has no place in the order: add it to PYTHON_ORDER"
    assert here is not None
    if there == here:
        return f"{part} imports {target}: {part} and {other} know nothing of each other"
    if there < here:
        return f"{part} imports {target}: {other} stands above {part}"
    return None


def check_python(root: Path) -> Iterator[Finding]:
    files = sorted((root / FACE).rglob("*.py"))
    known = {f"{FACE}._core"} | {module_name(file.relative_to(root)) for file in files}
    for file in files:
        path = file.relative_to(root)
        part = python_part(module_name(path))
        if part != FACE and level(PYTHON_ORDER, part) is None:
            message = f"weft.{part} has no place in the order: add it to PYTHON_ORDER"
            yield Finding(path, 1, message)
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(path))
        found = [
            (node.lineno, target, deferred)
            for node, deferred in imports(tree.body)
            for target in targets(node, path, known)
        ]
        found += [(line, module, True) for line, module in uses(tree, known)]
        for line, target, deferred in found:
            problem = check_import(part, target, deferred)
            if problem:
                yield Finding(path, line, problem)


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    findings = [*check_cpp(root), *check_python(root)]
    for finding in findings:
        print(finding)
    print(f"layers: {len(findings)} finding(s)")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()

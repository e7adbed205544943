"""What weft offers, as the generators see it: one Operation per name, in all its forms.

Operations written in C++ come from the registry, those written in Python from
weft.ops._composed, second names from there, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tools.schema import Schema, parse_schema

OP_LIST = Path(__file__).resolve().parent.parent / "core" / "ops" / "list.h"
# `functional` is a function of weft.nn.functional, `inplace function` is weft.exp_(x).
KINDS = frozenset({"function", "method", "inplace", "out", "functional", "inplace function"})
NAMESPACES = ("linalg", "special", "nn.functional")


@dataclass(frozen=True)
class Overload:
    schema: Schema
    kinds: frozenset[str]


@dataclass(frozen=True)
class PythonForm:
    """A function of weft.ops, and the kinds it is offered in."""

    function: Callable[..., Any]
    kinds: frozenset[str]


@dataclass(frozen=True)
class Operation:
    name: str  # with its namespace: linalg.norm
    family: str
    doc: str
    differentiable: bool | None  # None: made of others, whose gradients it has
    overloads: tuple[Overload, ...] = ()
    python: PythonForm | None = None

    def has(self, kind: str) -> bool:
        return self.in_python(kind) or any(kind in overload.kinds for overload in self.overloads)

    def in_python(self, kind: str) -> bool:
        return self.python is not None and kind in self.python.kinds

    def with_kind(self, kind: str) -> Operation:
        """The same, offered in one more kind."""
        if self.python is not None:
            form = replace(self.python, kinds=self.python.kinds | {kind})
            return replace(self, python=form)
        more = (replace(one, kinds=one.kinds | {kind}) for one in self.overloads if one.kinds)
        return replace(self, overloads=tuple(more))


def read_overload(entry: Mapping[str, Any]) -> Overload:
    unknown = set(entry["kinds"]) - KINDS
    if unknown:
        raise ValueError(f"{entry['name']}: unknown kinds {sorted(unknown)}")
    return Overload(parse_schema(entry["schema"]), frozenset(entry["kinds"]))


def families(op_list: str) -> dict[str, str]:
    """The file that each operation's struct is in: in the list, a comment names it."""
    found: dict[str, str] = {}
    family = ""
    for file, struct in re.findall(r"/\* (\w+)\.cpp \*/|\bX\((\w+),", op_list):
        family = file or family
        if struct:
            found[struct] = family
    return found


def group(entries: Iterable[Mapping[str, Any]]) -> list[Operation]:
    """Operations by name; overloads keep the order of the registry, in which they are tried."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        by_name.setdefault(entry["name"], []).append(entry)
    return [
        Operation(
            name=name,
            family=same[0]["family"],
            doc=next((entry["doc"] for entry in same if entry["doc"]), "").strip(),
            differentiable=any(entry["differentiable"] for entry in same),
            overloads=tuple(read_overload(entry) for entry in same),
        )
        for name, same in sorted(by_name.items())
    ]


def qualified(name: str) -> str:
    """The registry has no dots: linalg_norm is weft.linalg.norm."""
    for namespace in ("linalg", "special"):
        if name.startswith(f"{namespace}_"):
            return f"{namespace}.{name.removeprefix(f'{namespace}_')}"
    return name


def from_registry(entries: Iterable[Mapping[str, Any]]) -> list[Operation]:
    """Those that a program can call: a registry entry without a form is weft's own business."""
    family_of = families(OP_LIST.read_text(encoding="utf-8"))
    offered = [
        {**entry, "name": qualified(entry["name"]), "family": family_of[entry["struct"]], "doc": ""}
        for entry in entries
        if entry["kinds"]
    ]
    return group(offered)


def composed_operation(composed: Any) -> Operation:
    name = f"{composed.namespace}.{composed.name}" if composed.namespace else composed.name
    return Operation(
        name=name,
        family=composed.function.__module__.rpartition(".")[2].strip("_"),
        doc=first_paragraph(composed.function.__doc__ or ""),
        differentiable=None,
        python=PythonForm(composed.function, frozenset(composed.kinds)),
    )


def first_paragraph(doc: str) -> str:
    """On one line, in Markdown."""
    text = " ".join(doc.strip().partition("\n\n")[0].split())
    return re.sub(r":\w+:`([^`]*)`|``([^`]*)``", lambda m: f"`{m[1] or m[2]}`", text)


def merged(first: Operation, composed: Operation) -> Operation:
    """One name in C++ and in Python: in the forms that Python has it replaces the other."""
    return replace(first, doc=composed.doc, python=composed.python)


def second_name(first: Operation, second: Any) -> Operation:
    """Another name in every form; in a namespace it is a function only."""
    if not second.namespace:
        return replace(first, name=second.name, doc=f"Another name for `{first.name}`.")
    functions = frozenset({"function", "out"})
    kept = replace(
        first,
        name=f"{second.namespace}.{second.name}",
        doc=f"Another name for `{first.name}`.",
        overloads=tuple(replace(o, kinds=o.kinds & functions) for o in first.overloads),
    )
    if first.python is None:
        return kept
    form = replace(first.python, kinds=first.python.kinds & functions)
    return replace(kept, python=form)


def offered_as_functions(by_name: dict[str, Operation], names: Iterable[str]) -> None:
    """Notes which functions of weft are methods under their own name, such as weft.exp_."""
    for name in names:
        base = name.removesuffix("_")
        if name in by_name and not by_name[name].has("function"):
            by_name[name] = by_name[name].with_kind("function")
        elif name not in by_name and name != base and base in by_name:
            by_name[base] = by_name[base].with_kind("inplace function")


def installed_operations() -> list[Operation]:
    """What this build of weft offers."""
    from weft import _core, ops
    from weft.ops._composed import composed_operations, second_names

    by_name = {operation.name: operation for operation in from_registry(_core.registry())}
    for composed in composed_operations:
        operation = composed_operation(composed)
        first = by_name.get(operation.name)
        by_name[operation.name] = merged(first, operation) if first else operation
    for second in second_names:
        operation = second_name(by_name[second.of], second)
        by_name[operation.name] = operation
    offered_as_functions(by_name, ops.operations())
    return [by_name[name] for name in sorted(by_name)]

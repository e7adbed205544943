"""The registry as the generators see it: one Operation per name, each with all its overloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tools.schema import Schema, parse_schema

KINDS = frozenset({"function", "method", "inplace", "out"})


@dataclass(frozen=True)
class Overload:
    schema: Schema
    kinds: frozenset[str]


@dataclass(frozen=True)
class Operation:
    name: str
    family: str
    doc: str
    differentiable: bool
    overloads: tuple[Overload, ...]

    def has(self, kind: str) -> bool:
        return any(kind in overload.kinds for overload in self.overloads)


def read_overload(entry: Mapping[str, Any]) -> Overload:
    unknown = set(entry["kinds"]) - KINDS
    if unknown:
        raise ValueError(f"{entry['name']}: unknown kinds {sorted(unknown)}")
    return Overload(parse_schema(entry["schema"]), frozenset(entry["kinds"]))


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


def installed_operations() -> list[Operation]:
    """What this build of weft offers, operations composed in Python included."""
    import weft  # noqa: F401  (registers the composed ones)
    from weft import _core

    return group(_core.registry())

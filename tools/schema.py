"""Reads PyTorch's schema syntax, in which every operation says how it is called:

sum.dim(Tensor self, int[]? dim, bool keepdim=False, *, DType? dtype=None) -> Tensor
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TYPE = re.compile(
    r"^(?P<base>[A-Za-z]\w*(?:\|Scalar)?)"  # Tensor|Scalar: a number will do, too
    r"(?P<alias>\([^)]*\))?"  # Tensor(a!): written to, or sharing memory; no matter for typing
    r"(?P<item_optional>\?)?"
    r"(?P<list>\[(?P<size>\d*)\])?"
    r"(?P<optional>\?)?$"
)


class SchemaError(ValueError):
    """A schema that cannot be read; the message quotes it."""


@dataclass(frozen=True)
class Type:
    """`int[2]?` is Type("int", is_list=True, size=2, is_optional=True)."""

    base: str
    is_list: bool = False
    size: int | None = None
    is_optional: bool = False
    has_optional_items: bool = False


@dataclass(frozen=True)
class Parameter:
    name: str
    type: Type
    default: str | None = None
    keyword_only: bool = False


@dataclass(frozen=True)
class Result:
    type: Type
    name: str | None = None


@dataclass(frozen=True)
class Schema:
    name: str
    overload: str
    parameters: tuple[Parameter, ...]
    results: tuple[Result, ...]


def parse_type(text: str) -> Type:
    match = TYPE.match(text)
    if match is None:
        raise SchemaError(f"not a type: {text!r}")
    is_list = match["list"] is not None
    first_mark, last_mark = match["item_optional"] is not None, match["optional"] is not None
    return Type(
        base=match["base"],
        is_list=is_list,
        size=int(match["size"]) if match["size"] else None,
        # Without a list there is one place for the mark, and the pattern reads it as the first.
        is_optional=last_mark or (first_mark and not is_list),
        has_optional_items=first_mark and is_list,
    )


def split_outside_brackets(text: str) -> list[str]:
    """The parts between commas that no bracket and no quotation encloses."""
    parts, depth, quote, current = [], 0, "", ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        if character == "," and depth == 0 and not quote:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return [part for part in [*parts, current.strip()] if part]


def parse_parameter(text: str, keyword_only: bool) -> Parameter:
    declaration, _, default = text.partition("=")
    type_text, _, name = declaration.strip().rpartition(" ")
    if not type_text or not name.isidentifier():
        raise SchemaError(f"not a parameter: {text!r}")
    return Parameter(name, parse_type(type_text.strip()), default.strip() or None, keyword_only)


def parse_results(text: str) -> tuple[Result, ...]:
    enclosed = text.startswith("(") and text.endswith(")")
    results = []
    for part in split_outside_brackets(text[1:-1] if enclosed else text):
        type_text, _, name = part.rpartition(" ")
        results.append(
            Result(parse_type(type_text), name) if type_text else Result(parse_type(name))
        )
    return tuple(results)


def parse_schema(text: str) -> Schema:
    match = re.match(
        r"^(?P<name>\w+)(\.(?P<overload>\w+))?\((?P<inside>.*)\) -> (?P<out>.+)$", text
    )
    if match is None:
        raise SchemaError(f"not of the form name(...) -> type: {text!r}")
    parameters: list[Parameter] = []
    keyword_only = False
    try:
        for part in split_outside_brackets(match["inside"]):
            if part == "*":
                keyword_only = True
            else:
                parameters.append(parse_parameter(part, keyword_only))
        results = parse_results(match["out"].strip())
    except SchemaError as error:
        raise SchemaError(f"{error} in {text!r}") from None
    return Schema(match["name"], match["overload"] or "", tuple(parameters), results)

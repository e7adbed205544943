"""The program's own text: statements and blocks around a line."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterator
from typing import Any

from weft._callers import Line

_GRADIENT_MODES = ("no_grad", "inference_mode", "set_grad_enabled")


@functools.cache
def _tree(file: str) -> Any:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ast.parse("")


def _around(line: Line) -> Iterator[Any]:
    """Statements that contain a line, outermost first."""
    for node in ast.walk(_tree(line[0])):
        if isinstance(node, ast.stmt) and node.lineno <= line[1] <= (node.end_lineno or 0):
            yield node


def statement_at(line: Line) -> str:
    """The text of the innermost statement at a line; the line itself where that is a block."""
    around = list(_around(line))
    if not around or hasattr(around[-1], "body"):
        return linecache.getline(*line)
    innermost = around[-1]
    return "".join(linecache.getlines(line[0])[innermost.lineno - 1 : innermost.end_lineno])


def class_around(line: Line, name: str) -> ast.ClassDef | None:
    """The class of this name that a line stands in."""
    classes = [node for node in _around(line) if isinstance(node, ast.ClassDef)]
    return next((node for node in reversed(classes) if node.name == name), None)


def block_without_gradient(line: Line) -> Line | None:
    """The ``with no_grad():`` or the decorated function that a line stands in."""
    found = None
    for node in _around(line):
        if isinstance(node, ast.With | ast.AsyncWith):
            opens = any(_sets_gradient_mode(item.context_expr) for item in node.items)
            found = (line[0], node.lineno) if opens else found
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = [mark.lineno for mark in node.decorator_list if _sets_gradient_mode(mark)]
            found = (line[0], marks[0]) if marks else None
    return found


def _sets_gradient_mode(expression: Any) -> bool:
    return any(
        getattr(part, "attr", getattr(part, "id", None)) in _GRADIENT_MODES
        for part in ast.walk(expression)
    )


def use_without_gradient(function: Any, attribute: str) -> Line | None:
    """The line of a function that names ``.attribute`` inside a block without gradient."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    for outer in ast.walk(_tree(code.co_filename)):
        if not isinstance(outer, ast.FunctionDef) or outer.name != code.co_name:
            continue
        first = min([outer.lineno, *(mark.lineno for mark in outer.decorator_list)])
        if first != code.co_firstlineno:
            continue
        for part in ast.walk(outer):
            if isinstance(part, ast.Attribute) and part.attr == attribute:
                line = (code.co_filename, part.lineno)
                if block_without_gradient(line) is not None:
                    return line
    return None

"""Signatures of operations written in Python, in the words of the stubs (see signatures.py)."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

# Names of annotations that mean the same in a stub. Any other is a module's own: Any stands for it.
SHARED = frozenset(
    (
        "Any", "Callable", "Generator", "NoReturn", "None", "Number", "Sequence", "Size", "Tensor",
        "complex", "dict", "list", "object", "str", "tuple",
    )
)  # fmt: skip
RENAMED = frozenset({"bool", "device", "dtype", "float", "int", "layout", "memory_format"})
SIMPLE_DEFAULTS = (bool, int, float, str, type(None))


class StubNames(ast.NodeTransformer):
    """Rewrites an annotation into names that the stubs have."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self.visit_Name(ast.Name(node.attr))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in RENAMED:
            return ast.Name(f"_{node.id}")
        return ast.Name(node.id if node.id in SHARED else "Any")


def stub_annotation(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return "Any"
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return ast.unparse(StubNames().visit(ast.parse(text, mode="eval")))


def stub_default(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    simple = isinstance(value, SIMPLE_DEFAULTS)
    if isinstance(value, tuple):
        simple = all(isinstance(item, SIMPLE_DEFAULTS) for item in value)
    return repr(value) if simple else "..."


def stub_parameter(parameter: inspect.Parameter) -> str:
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
    text = f"{stars}{parameter.name}: {stub_annotation(parameter.annotation)}"
    if parameter.default is inspect.Parameter.empty:
        return text
    return f"{text} = {stub_default(parameter.default)}"


def out_keyword(result: str) -> str:
    targets = "Sequence[Tensor]" if result.startswith("tuple") else "Tensor"
    return f"out: {targets} | None = None"


def listed(parameters: list[inspect.Parameter], extra: list[str]) -> list[str]:
    """With the marks that Python wants between kinds of parameters."""
    texts: list[str] = []
    starred = False
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            texts.append("*")
        starred = starred or parameter.kind in (
            inspect.Parameter.KEYWORD_ONLY,
            inspect.Parameter.VAR_POSITIONAL,
        )
        texts.append(stub_parameter(parameter))
    if extra and not starred:
        texts.append("*")
    rest = [p for p in parameters if p.kind is inspect.Parameter.VAR_KEYWORD]
    return [*texts, *extra, *map(stub_parameter, rest)]


def python_signature(
    function: Callable[..., Any], with_out: bool, is_method: bool
) -> tuple[tuple[str, ...], str]:
    """Parameters and result; a method's first parameter is `self`, a function's never is."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    result = stub_annotation(signature.return_annotation)
    with_out = with_out and "out" not in signature.parameters
    extra = [out_keyword(result)] if with_out else []
    if is_method and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        return ("self", *listed(parameters[1:], extra)), result
    if parameters and parameters[0].name == "self":
        parameters[0] = parameters[0].replace(name="input")
    texts = listed(parameters, extra)
    return (("self", *texts) if is_method else tuple(texts)), result

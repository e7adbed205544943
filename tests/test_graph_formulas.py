"""The formulas that weft.graph shows are the derivatives that weft computes."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from ._target import submodule, weft, weft_only

pytestmark = weft_only
formulas = submodule("graph._formulas")
nodes = submodule("graph._nodes")

OPERATIONS = Path(__file__).resolve().parent.parent / "core" / "ops"

# What the formulas are written in, as Python.
SIGNS = {"·": "*", "−": "-", "²": "**2", "³": "**3", "^": "**", "√π": "sqrt(pi)", "√": "sqrt"}
UNARY = """
    neg square reciprocal abs sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos
    atan sinh cosh tanh asinh acosh atanh erf erfc sigmoid relu silu softplus logsigmoid gelu
"""
BINARY = "add sub mul div hypot atan2 maximum minimum pow"


def computed(formula: str, values: dict[str, Any]) -> Any:
    for sign, python in SIGNS.items():
        formula = formula.replace(sign, python)
    formula = formula.replace("log 10", "log(10)").replace("log 2", "log(2)")
    known = {
        name: getattr(weft, name)
        for name in ("sin", "cos", "sinh", "cosh", "exp", "sqrt", "sign", "log")
    }
    known |= {
        "σ": weft.sigmoid,
        "Φ": lambda x: 0.5 * (1 + weft.erf(x / math.sqrt(2))),
        "φ": lambda x: weft.exp(-x * x / 2) / math.sqrt(2 * math.pi),
        "pi": weft.tensor(math.pi, dtype=weft.float64),
        "log": lambda x: math.log(x) if isinstance(x, int) else weft.log(x),
    }
    return eval(formula, known | values)


@pytest.mark.parametrize("name", [*UNARY.split(), *BINARY.split()])
def test_formulas_are_the_derivatives(name: str) -> None:
    function = getattr(weft, name, None) or getattr(weft.nn.functional, name)
    low = 1.1 if name == "acosh" else 0.2
    values = [
        (weft.rand(5, dtype=weft.float64) * 0.6 + low).requires_grad_()
        for _ in range(1 + (name in BINARY.split()))
    ]
    y = function(*values)
    node = y.grad_fn
    operation, arguments = nodes.operation(node), nodes.argument_names(node)
    assert operation == name
    g = weft.rand(5, dtype=weft.float64)
    scope = {"g": g, "y": y, "alpha": 1, "beta": 1, **dict(zip(arguments, values, strict=False))}
    for argument, expected in zip(
        arguments, weft.autograd.grad(y, values, g, retain_graph=True), strict=False
    ):
        text = formulas.formula(name, argument, "")
        assert text, argument
        if " where " in text:
            text = "g * (" + text.split(" where ")[1].removesuffix(", else 0") + ")"
        if name in ("maximum", "minimum"):
            continue  # in words
        found = computed(text, scope)
        assert weft.allclose(found, expected), f"∂{argument} = {text}"


@pytest.mark.parametrize("centered", [True, False])
def test_formulas_of_normalisation(centered: bool) -> None:
    x = weft.randn(3, 5, dtype=weft.float64).requires_grad_()
    weight = weft.rand(5, dtype=weft.float64).requires_grad_()
    function = weft.nn.functional.layer_norm if centered else weft.nn.functional.rms_norm
    y = function(x, (5,), weight, eps=1e-12)
    g = weft.randn(3, 5, dtype=weft.float64)
    mean = x.mean(1, keepdim=True) if centered else 0
    deviation = (x - mean).square().mean(1, keepdim=True).sqrt()
    settings = nodes.settings(y.grad_fn)
    for argument, expected in zip(
        ("input", "weight"), weft.autograd.grad(y, (x, weight), g), strict=True
    ):
        text = formulas.formula("row_norm", argument, settings).partition(",")[0]
        scope = {"g": g, "h": g * weight, "x̂": (x - mean) / deviation, "σ": deviation}
        scope["mean"] = lambda value: value.mean(1, keepdim=True)
        scope["sum"] = lambda value: value.sum(0)
        assert weft.allclose(computed(text, scope), expected), text


def test_formulas_speak_of_operations_and_arguments_that_exist() -> None:
    sources = "".join(path.read_text("utf-8") for path in OPERATIONS.glob("*.cpp"))
    schemas: dict[str, set[str]] = {}
    for name, arguments in re.findall(r'"_?(\w+)(?:\.\w+)?\(([^()]*Tensor[^()]*)\)', sources):
        words = re.findall(r"Tensor[^ ]* (\w+)", arguments)
        schemas.setdefault(name, set()).update(words)
    computed_above = {*UNARY.split(), *BINARY.split()}
    for name, arguments in formulas.FORMULAS.items():
        if name in schemas:
            assert set(arguments) <= schemas[name], (name, schemas[name])
        else:  # its schema is put together by a macro
            assert name in computed_above or hasattr(weft.Tensor, name), (
                f"{name}: no such operation"
            )

"""What `weft verify module.py:name` means, and the inputs that are drawn for it.

A target is one of
* a function whose parameters say what they take:
  ``def loss(x: "float64[3, 4]", k: "int64[5] < 4")``;
* a function without parameters that returns ``(function, inputs)``: a case of its own making;
* a Module, or a class of one that can be made without arguments; the inputs of its forward are
  given on the command line, or by the annotations of ``forward``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import weft

_SPECIFICATION = re.compile(r"\s*(\w*)\s*\[([\d\s,]*)\]\s*(?:<\s*(\d+))?\s*")


def draw(specification: str, dtype: weft.dtype) -> weft.Tensor:
    """A tensor for ``float64[3, 4]``, ``[3, 4]`` (of the check's dtype) or ``int64[5] < 10``.

    Numbers lie between -1 and 1 and away from 0, where many functions have a kink.
    """
    parsed = _SPECIFICATION.fullmatch(specification)
    if parsed is None:
        raise ValueError(
            f"{specification!r} does not describe a tensor: write float64[3, 4], [3, 4] or "
            "int64[5] < 10"
        )
    name, sizes, limit = parsed.groups()
    shape = [int(size) for size in sizes.split(",") if size.strip()]
    wanted = getattr(weft, name) if name else dtype
    if not isinstance(wanted, weft.dtype):
        raise ValueError(f"{specification!r}: there is no dtype {name!r}")
    if not wanted.is_floating_point:
        return weft.randint(int(limit or 2), shape).to(wanted)
    size = weft.rand(shape, dtype=wanted) * 0.9 + 0.1
    sign = weft.randint(2, shape).to(wanted) * 2 - 1
    return (size * sign).requires_grad_()


def resolve(
    target: str, specifications: Sequence[str], dtype: weft.dtype
) -> tuple[Callable[..., Any], tuple[Any, ...], list[str], str]:
    """For ``module.py:name``: the function, its inputs, their descriptions, the file's hash."""
    path, _, name = target.rpartition(":")
    if not path or not name:
        raise ValueError(f"{target!r}: write module.py:function")
    found: Any = _load(path)
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{path} has no {name!r}")
        found = getattr(found, part)
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    if inspect.isclass(found):
        found = found()
    if not callable(found):
        raise ValueError(f"{target} is {type(found).__name__}, which cannot be called")
    if is_module(found):
        found.to(dtype)
        given = specifications or annotations_of(found.forward)
    else:
        given = specifications or annotations_of(found)
        if not given:
            return (*_case(found, target), [], digest)
    return found, tuple(draw(text, dtype) for text in given), list(given), digest


def is_module(thing: Any) -> bool:
    """Whether it is an nn.Module, without importing weft.nn where nothing needs it."""
    nn = sys.modules.get("weft.nn")
    return nn is not None and isinstance(thing, nn.Module)


def annotations_of(function: Any) -> list[str]:
    """The descriptions of tensors that a function's parameters are annotated with."""
    described = []
    for parameter in inspect.signature(function).parameters.values():
        text = parameter.annotation
        if isinstance(text, str) and _SPECIFICATION.fullmatch(text.strip("'\" ")):
            described.append(text.strip("'\" "))
        elif parameter.default is inspect.Parameter.empty:
            raise ValueError(
                f"{function.__qualname__}(): parameter {parameter.name!r} does not say what it "
                'takes. Annotate it (x: "float64[3, 4]") or give --input once per parameter.'
            )
    return described


def _case(function: Callable[..., Any], target: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    made = function()
    if isinstance(made, tuple) and len(made) == 2 and callable(made[0]):
        inputs = made[1] if isinstance(made[1], (tuple, list)) else (made[1],)
        return made[0], tuple(inputs)
    raise ValueError(
        f"{target}() takes no parameters, so it should return (function, inputs); it returned "
        f"{type(made).__name__}"
    )


def _load(path: str) -> ModuleType:
    if not os.path.isfile(path):
        raise ValueError(f"there is no file {path!r}")
    name = os.path.splitext(os.path.basename(path))[0]
    specification = importlib.util.spec_from_file_location(f"_verified_{name}", path)
    if specification is None or specification.loader is None:
        raise ValueError(f"{path!r} is not a Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[module.__name__] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        specification.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module

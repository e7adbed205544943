"""The frameworks that can stand behind the name `torch` in a case."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from bench.case import Framework

NAMES = ("weft", "torch", "floor")


def module_name(framework: str) -> str:
    """What to import; BENCH_WEFT_MODULE=torch tries the harness out without weft."""
    if framework == "weft":
        return os.environ.get("BENCH_WEFT_MODULE", "weft")
    return framework


def load(framework: str) -> Framework:
    """The module of a framework; the floor is built first where it is missing."""
    if framework == "floor":
        from bench import floor

        return floor.load()
    return importlib.import_module(module_name(framework))


def set_threads(module: Framework, count: int) -> None:
    """Asks the framework for `count` threads, where it has any."""
    setter = getattr(module, "set_num_threads", None)
    if setter is not None:
        setter(count)


def instruction_set(module: Framework) -> str:
    """The instruction set that the framework chose, by PyTorch's name for the question."""
    ask: Any = getattr(
        getattr(getattr(module, "backends", None), "cpu", None), "get_cpu_capability", None
    )
    return str(ask()) if ask is not None else "unknown"


def provenance_switch(module: Framework) -> Callable[[bool], object] | None:
    """weft's private switch for call sites; None where there is nothing to switch."""
    return getattr(getattr(module, "_core", None), "set_provenance", None)

"""The modules called `torch...` that stand for weft's."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any

from weft.torch_names import _answers

# PyTorch's paths for what weft keeps elsewhere.
_ELSEWHERE = {
    "torch.multiprocessing": "multiprocessing",
    "torch.random": "weft.ops.random",
}


class Facade(ModuleType):
    """Looks names up: first what is answered specially, then what weft has under the same path."""

    def __init__(self, name: str, target: ModuleType | None) -> None:
        super().__init__(name, None if target is None else target.__doc__)
        self._weft_target = target
        for answer, value in _answers.answers(name).items():
            setattr(self, answer, value)

    def __getattr__(self, name: str) -> Any:
        target = self.__dict__.get("_weft_target")
        if target is not None:
            try:
                value = getattr(target, name)
            except AttributeError:
                pass
            else:
                if not isinstance(value, ModuleType) or not _is_weft(value):
                    return value  # functions and classes are weft's own; modules keep torch's name
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        path = f"{self.__name__}.{name}"
        if _target_name(path) is not None:
            return importlib.import_module(path)
        raise _missing(self, name, sys._getframe(1))

    def __dir__(self) -> list[str]:
        target = self._weft_target
        return sorted({*self.__dict__, *(dir(target) if target is not None else ())})


class FacadeFinder(MetaPathFinder, Loader):
    """Answers for `torch` and all modules below it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch" and not name.startswith("torch."):
            return None
        if _target_name(name) is None:
            raise ModuleNotFoundError(_no_module(name), name=name)
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        found = _target_name(spec.name)
        return Facade(spec.name, importlib.import_module(found) if found else None)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing runs: names are looked up when they are asked for."""


def _is_weft(module: ModuleType) -> bool:
    return module.__name__.partition(".")[0] == "weft"


def _target_name(name: str) -> str | None:
    """The module that stands behind `torch...`: "" if there are only answers, None if nothing."""
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    beside = "weft" + name.removeprefix("torch")
    try:
        if beside in sys.modules or importlib.util.find_spec(beside) is not None:
            return beside
    except (ModuleNotFoundError, ValueError):
        pass
    return "" if _answers.answers(name) else None


def _missing(facade: Facade, name: str, frame: FrameType) -> Exception:
    """The error for a name that weft does not have, at the line that asks for it."""
    line = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    names = [known for known in dir(facade) if not known.startswith("_")]
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    hint = f" The nearest that exists is {facade.__name__}.{nearest[0]}." if nearest else ""
    text = (
        f"{facade.__name__}.{name} is not in weft, which stands in for PyTorch here ({line})."
        f"{hint} docs/differences.md lists what is left out."
    )
    if _is_from_import(
        frame
    ):  # `from torch import name` would replace an AttributeError by its own
        return ImportError(text, name=facade.__name__)
    return AttributeError(text, name=name, obj=None)


def _is_from_import(frame: FrameType) -> bool:
    import dis

    code = frame.f_code.co_code
    return 0 <= frame.f_lasti < len(code) and dis.opname[code[frame.f_lasti]] == "IMPORT_FROM"


def _no_module(name: str) -> str:
    parent, _, leaf = name.rpartition(".")
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    line = f" ({frame.f_code.co_filename}:{frame.f_lineno})" if frame is not None else ""
    known = [n for n in dir(sys.modules[parent]) if not n.startswith("_")] if parent else []
    nearest = difflib.get_close_matches(leaf, known, n=1, cutoff=0.6)
    hint = f" The nearest that exists is {parent}.{nearest[0]}." if nearest else ""
    return f"No module named {name!r} in weft, which stands in for PyTorch here{line}.{hint}"

"""What programs ask PyTorch about itself, answered so that ordinary CPU programs go on.

Compilers and scripting return the function they were given: the program's results are the same,
and weft records what really runs anyway. Mixed precision on a device that is not there is off.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

TORCH_VERSION = "2.13.0"


class _Version(str):
    """Compares as a version where it is compared with one."""

    def _parts(self) -> tuple[int, ...]:
        return tuple(int(p) for p in self.partition("+")[0].split(".") if p.isdigit())

    def __ge__(self, other: object) -> bool:
        return self._parts() >= _Version(other)._parts()

    def __gt__(self, other: object) -> bool:
        return self._parts() > _Version(other)._parts()

    def __le__(self, other: object) -> bool:
        return self._parts() <= _Version(other)._parts()

    def __lt__(self, other: object) -> bool:
        return self._parts() < _Version(other)._parts()


def _unchanged(function: F | None = None, *args: Any, **options: Any) -> Any:
    """A decorator, with or without arguments, that changes nothing."""
    if callable(function):
        return function
    return lambda decorated: decorated


def _false() -> bool:
    return False


class autocast(contextlib.ContextDecorator):
    """Mixed precision: off, with PyTorch's warning where a program asks for it."""

    def __init__(
        self,
        device_type: str = "cpu",
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if enabled and device_type == "cpu":
            import warnings

            warnings.warn(
                "autocast: weft computes in the dtype of its arguments; mixed precision is off",
                stacklevel=2,
            )

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *error: object) -> None:
        return None


class GradScaler:
    """Loss scaling, which is for float16 on a device: passes everything through."""

    def __init__(self, device: str = "cuda", *args: Any, enabled: bool = True, **kw: Any) -> None:
        self._enabled = False

    def scale(self, outputs: Any) -> Any:
        return outputs

    def unscale_(self, optimizer: Any) -> None:
        """Nothing was scaled."""

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """The scale stays 1."""

    def get_scale(self) -> float:
        return 1.0

    def is_enabled(self) -> bool:
        return False

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """There is no state."""


def _cuda_autocast(**options: Any) -> autocast:
    return autocast("cuda", **options)


@contextlib.contextmanager
def _record_function(name: str, args: str | None = None) -> Any:
    yield None


_JIT = {
    "script": _unchanged,
    "ignore": _unchanged,
    "export": _unchanged,
    "unused": _unchanged,
    "script_method": _unchanged,
    "is_scripting": _false,
    "is_tracing": _false,
    "annotate": lambda the_type, value: value,
    "Final": Final,
    "ScriptModule": object,
}

_TABLE: dict[str, dict[str, Any]] = {
    "torch": {"__version__": _Version(TORCH_VERSION + "+weft"), "compile": _unchanged},
    "torch.version": {
        "__version__": _Version(TORCH_VERSION + "+weft"),
        "cuda": None,
        "hip": None,
        "git_version": "weft",
        "debug": False,
    },
    "torch.jit": _JIT,
    "torch.compiler": {
        "disable": _unchanged,
        "allow_in_graph": _unchanged,
        "is_compiling": _false,
        "reset": lambda: None,
        "cudagraph_mark_step_begin": lambda: None,
    },
    "torch.amp": {"autocast": autocast, "GradScaler": GradScaler},
    "torch.cuda.amp": {"autocast": _cuda_autocast, "GradScaler": GradScaler},
    "torch.distributed": {
        "is_available": _false,
        "is_initialized": _false,
        "is_torchelastic_launched": _false,
    },
    "torch.profiler": {"record_function": _record_function},
    "torch.mps": {"is_available": _false},
    "torch.xpu": {"is_available": _false},
}


@functools.cache
def answers(module: str) -> dict[str, Any]:
    """The names of a `torch...` module that are not weft's own."""
    return _TABLE.get(module, {})

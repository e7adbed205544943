"""Training runs that go on where they stopped: the last whole states of everything, on disk.

Not to be confused with `weft.utils.checkpoint`, which saves memory in backward.
"""

from __future__ import annotations

import contextlib
import os
import platform
import random
import re
import sys
import time
import warnings
from typing import Any, NamedTuple

from weft import _core
from weft.keeping._api import load, save
from weft.keeping._errors import DamagedFileError, RefusedFileError
from weft.keeping._tree import Encoder

_FILE = re.compile(r"(\d{8,})-step-(-?\d+)\.safetensors")
_PASSING = re.compile(r"\.\d{8,}-step-.*\.part")
_MAKE = "weft.checkpoint"


class _Kept(NamedTuple):
    """A state on disk. `number` counts the states of a folder, in the order they were saved."""

    number: int
    step: int
    path: str


class Checkpoint:
    """Keeps the last whole states of a training run in a folder. See `weft.checkpoint`.

    `resumed` is what `resume` found, without the states of the parts: step, config, extra, time,
    versions, commit and path; None if it found nothing.
    """

    def __init__(
        self, directory: Any, keep: int, config: dict[str, Any] | None, parts: dict[str, Any]
    ) -> None:
        if type(keep) is not int or keep < 1:
            raise ValueError(f"{_MAKE}(): keep must be a whole number from 1 on, not {keep!r}")
        for name, part in parts.items():
            if _reader_of(part) is None:
                raise TypeError(
                    f"{_MAKE}(): {name} is a {type(part).__name__}, expected something with "
                    "state_dict() and load_state_dict(), or a Generator; put plain values into "
                    "config"
                )
        Encoder()(config, ("config",))  # what cannot be kept is refused now, not after an hour
        self.directory = os.path.abspath(os.fspath(directory))
        self.keep = keep
        self.config = config
        self.parts = parts
        self.resumed: dict[str, Any] | None = None
        self._damaged: set[str] = set()
        self._commit = _commit()
        os.makedirs(self.directory, exist_ok=True)

    def __repr__(self) -> str:
        names = ", ".join(self.parts)
        return f"Checkpoint({self.directory!r}, keep={self.keep}, keeping {names or 'nothing'})"

    # ---- saving ----

    def save(self, step: int, **extra: Any) -> str:
        """Keeps the state of everything now, as that of ``step``; returns the file's path.

        It is on disk, whole, when this returns. Only then older states go, all but ``keep``.
        ``extra`` is kept with it, and stands in `resumed` after a resume.
        """
        if type(step) is not int:
            raise TypeError(f"save(): argument 'step' must be int, not {type(step).__name__}")
        kept = self._kept()
        number = kept[-1].number + 1 if kept else 1
        path = os.path.join(self.directory, f"{number:08d}-step-{step}.safetensors")
        state = {
            "step": step,
            "parts": {name: _reader_of(part)() for name, part in self.parts.items()},
            "random": _random_states(),
            "config": self.config,
            "extra": extra,
            "time": time.time(),
            "versions": _versions(),
            "commit": self._commit,
        }
        save(state, path)
        self._remove_old([*kept, _Kept(number, step, path)])
        return path

    def _remove_old(self, kept: list[_Kept]) -> None:
        whole = [state for state in kept if state.path not in self._damaged]
        first = whole[-self.keep :][0].number
        with contextlib.suppress(FileNotFoundError):  # someone else was faster
            for state in kept:
                if state.number < first:
                    os.unlink(state.path)
            # What processes that were killed left behind.
            for name in os.listdir(self.directory):
                if _PASSING.fullmatch(name):
                    os.unlink(os.path.join(self.directory, name))

    # ---- resuming ----

    def resume(self) -> int:
        """Puts everything into the newest state that is whole, and returns its step; 0 if none.

        Random numbers go on as they would have. States that are damaged are passed over, with a
        warning. A state that is whole but does not fit (a part more or less, other shapes, the
        format of a newer weft) is an error.
        """
        for kept in reversed(self._kept()):
            try:
                state = load(kept.path)
                _check_whole(state, kept)
            except RefusedFileError:
                raise  # it is whole: going on without it would lose it
            except DamagedFileError as error:
                self._damaged.add(kept.path)
                warnings.warn(
                    f"{kept.path} cannot be resumed from and is passed over: {error}", stacklevel=2
                )
                continue
            self._restore(state, kept)
            return kept.step
        return 0

    def _restore(self, state: dict[str, Any], kept: _Kept) -> None:
        found, expected = state["parts"].keys(), self.parts.keys()
        if found != expected:
            raise ValueError(
                f"resume(): {kept.path} keeps the state of {_listed(found)}, but this run has "
                f"{_listed(expected)}: name the same parts to {_MAKE}(), or use another folder"
            )
        self._warn_of_other_config(state["config"], kept)
        for name, part in self.parts.items():
            _writer_of(part)(state["parts"][name])
        # Last: what the parts did to load may have drawn numbers.
        _set_random_states(state["random"])
        about = {name: value for name, value in state.items() if name not in ("parts", "random")}
        self.resumed = {**about, "path": kept.path}

    def _warn_of_other_config(self, before: Any, kept: _Kept) -> None:
        if self.config is None or _same(before, self.config):
            return
        before = before or {}
        names = [
            repr(name)
            for name in {**before, **self.config}
            if name not in before
            or name not in self.config
            or not _same(before[name], self.config[name])
        ]
        warnings.warn(
            f"{kept.path} was saved by a run with another config (different: {', '.join(names)}); "
            "this run goes on with its own",
            stacklevel=4,
        )

    # ---- the folder ----

    def _kept(self) -> list[_Kept]:
        """The states in the folder, oldest first."""
        found = []
        for name in os.listdir(self.directory):
            match = _FILE.fullmatch(name)
            if match:
                path = os.path.join(self.directory, name)
                found.append(_Kept(int(match[1]), int(match[2]), path))
        return sorted(found)


def checkpoint(
    directory: Any, keep: int = 3, *, config: dict[str, Any] | None = None, **parts: Any
) -> Checkpoint:
    """Keeps the last ``keep`` whole states of a training run in a folder, and resumes from them.

    ``parts`` are what the run consists of, by name: modules, optimisers, schedulers, data loaders,
    anything with ``state_dict()`` and ``load_state_dict()``, and random generators. Kept with them
    are the random states (of weft, of Python, of numpy where it is in use), the step, ``config``,
    the versions of weft and Python and the commit of the program. A run that was killed anywhere
    and resumed ends with the same bits as one that was not.

    >>> keeper = weft.checkpoint("runs/a", model=model, optimizer=optimizer, config={"lr": 0.1})
    >>> for step in range(keeper.resume(), 10_000):
    ...     train(step)
    ...     if (step + 1) % 100 == 0:
    ...         keeper.save(step + 1)

    (`weft.utils.checkpoint.checkpoint` is something else: it computes activations again.)
    """
    return Checkpoint(directory, keep, config, parts)


def _reader_of(part: Any) -> Any:
    if callable(getattr(part, "load_state_dict", None)):
        return getattr(part, "state_dict", None)
    return part.get_state if isinstance(part, _core.Generator) else None


def _writer_of(part: Any) -> Any:
    return part.set_state if isinstance(part, _core.Generator) else part.load_state_dict


def _same(one: Any, other: Any) -> bool:
    """Whether two plain values are kept alike; NaN is NaN, and tensors are not looked into."""
    same: bool = Encoder()(one) == Encoder()(other)
    return same


def _listed(names: Any) -> str:
    return ", ".join(sorted(names)) or "nothing"


def _check_whole(state: Any, kept: _Kept) -> None:
    """A state of another maker under a state's name is as good as damaged."""
    needed = {"step", "parts", "random", "config"}
    if type(state) is not dict or not needed <= state.keys() or state["step"] != kept.step:
        raise DamagedFileError(f"it is no state that {_MAKE} keeps")


# ---- random states -------------------------------------------------------------------------------


def _random_states() -> dict[str, Any]:
    states = {"weft": _core.default_generator.get_state(), "python": random.getstate()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        states["numpy"] = _without_arrays(numpy.random.get_state(legacy=False))
    return states


def _without_arrays(state: Any) -> Any:
    if isinstance(state, dict):
        return {name: _without_arrays(value) for name, value in state.items()}
    return state.tolist() if hasattr(state, "tolist") else state


def _set_random_states(states: dict[str, Any]) -> None:
    _core.default_generator.set_state(states["weft"])
    random.setstate(states["python"])
    if "numpy" in states:
        import numpy

        numpy.random.set_state(states["numpy"])


# ---- what ran ------------------------------------------------------------------------------------


def _versions() -> dict[str, str]:
    weft = sys.modules["weft"]
    found = {"weft": weft.__version__, "python": platform.python_version()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        found["numpy"] = numpy.__version__
    return found


def _commit() -> str | None:
    """The commit of the running program (with `-dirty` if files were changed since), if any."""
    import subprocess

    main = getattr(sys.modules.get("__main__"), "__file__", None)
    folder = os.path.dirname(os.path.abspath(main)) if main else os.getcwd()
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None

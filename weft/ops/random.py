"""The state of random numbers: seeds, and the default generator that operations draw from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from weft import _core
from weft.ops._composed import composed

default_generator = _core.default_generator


@composed(kinds="function")
def manual_seed(seed: int) -> _core.Generator:
    """Restarts all random numbers from `seed`; returns the default generator."""
    return default_generator.manual_seed(seed)


@composed(kinds="function")
def seed() -> int:
    """Restarts all random numbers from a seed of the system's, and returns it."""
    return default_generator.seed()


@composed(kinds="function")
def initial_seed() -> int:
    """The seed that the random numbers began with."""
    return default_generator.initial_seed()


@composed(kinds="function")
def get_rng_state() -> _core.Tensor:
    """The state of the default generator, as a tensor of bytes."""
    return default_generator.get_state()


@composed(kinds="function")
def set_rng_state(new_state: _core.Tensor) -> None:
    """Puts the default generator into a state that `get_rng_state` gave."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, *_: Any, **__: Any) -> Iterator[None]:
    """Inside, random numbers are drawn as usual; afterwards the state is what it was before."""
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)

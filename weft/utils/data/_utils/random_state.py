"""The states of all random numbers that a dataset may draw: weft's, Python's and numpy's."""

from __future__ import annotations

import random
import sys
from typing import Any

import weft

# (weft's, Python's, numpy's or None where numpy is not loaded), as their own functions give them.
Snapshot = tuple[Any, Any, Any]


def seed_all(seed: int, base_seed: int, worker_id: int) -> None:
    """Seeds a worker process as PyTorch does."""
    weft.manual_seed(seed)
    random.seed(seed)
    seed_numpy(base_seed, worker_id)


def seed_numpy(base_seed: int, worker_id: int) -> bool:
    """Seeds numpy's global generator, where numpy is loaded; says whether it is."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not hasattr(numpy, "random"):
        return False
    # Seeds of neighbouring workers differ by one only, too little for this generator.
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    numpy.random.seed(numpy.random.SeedSequence(entropy).generate_state(4))
    return True


def snapshot() -> Snapshot:
    """The states as they are now."""
    numpy = sys.modules.get("numpy")
    of_numpy = numpy.random.get_state() if hasattr(numpy, "random") else None  # type: ignore[union-attr]
    return weft.get_rng_state(), random.getstate(), of_numpy


def restore(states: Snapshot) -> None:
    """Puts all of them into the given states."""
    of_weft, of_python, of_numpy = states
    weft.set_rng_state(of_weft)
    random.setstate(of_python)
    if of_numpy is not None:
        import numpy

        numpy.random.set_state(of_numpy)


def equal(left: Snapshot, right: Snapshot) -> bool:
    """Whether nothing was drawn between two snapshots."""
    if left[1] != right[1] or not weft.equal(left[0], right[0]):
        return False
    if left[2] is None or right[2] is None:
        return left[2] is right[2]
    return left[2][2:] == right[2][2:] and bool((left[2][1] == right[2][1]).all())


def to_plain(states: Snapshot) -> dict[str, Any]:
    """A snapshot as tensors and numbers, which a checkpoint can hold without pickling."""
    of_weft, of_python, of_numpy = states
    plain: dict[str, Any] = {"weft": of_weft, "python": python_to_plain(of_python)}
    if of_numpy is not None:
        kind, keys, *rest = of_numpy
        plain["numpy"] = [kind, weft.tensor(keys.tolist(), dtype=weft.int64), *rest]
    return plain


def from_plain(plain: dict[str, Any]) -> Snapshot:
    """What `to_plain` was given."""
    of_numpy = None
    if "numpy" in plain:
        import numpy

        kind, keys, *rest = plain["numpy"]
        of_numpy = (kind, numpy.array(keys.tolist(), dtype=numpy.uint32), *rest)
    return plain["weft"], python_from_plain(plain["python"]), of_numpy


def python_to_plain(state: Any) -> list[Any]:
    """The state of a `random.Random`."""
    version, keys, spare = state
    return [version, weft.tensor(list(keys), dtype=weft.int64), spare]


def python_from_plain(plain: Any) -> Any:
    """What `python_to_plain` was given."""
    version, keys, spare = plain
    return version, tuple(keys.tolist()), spare

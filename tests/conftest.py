"""Devices, seeds and the leak tracker.

--leaks    every test must leave as many live tensors and nodes as it found
"""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest

DEVICES = ("cpu", "cuda")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--leaks", action="store_true", help="fail tests after which tensors or nodes stay alive"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "keeps_tensors: leaves tensors alive on purpose")


def target() -> Any:
    """The module under test, or None where it is not built: some tests here need no weft."""
    try:
        from ._target import weft
    except ImportError:
        return None
    return weft


def reason_without(device: str) -> str | None:
    """Why tests on `device` cannot run; None where they can."""
    if device == "cpu":
        return None
    module = target()
    backend = getattr(module, device, None)
    if backend is None:
        return f"this build has no device `{device}`"
    return None if backend.is_available() else f"no `{device}` device on this machine"


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """Name of a device; tests that take it run once on each."""
    name: str = request.param
    reason = reason_without(name)
    if reason is not None:
        pytest.skip(reason)
    return name


@pytest.fixture(autouse=True)
def seeds() -> None:
    """The same random numbers for a test, whatever ran before it."""
    random.seed(0)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(0)
    module = target()
    if module is not None and hasattr(module, "manual_seed"):
        module.manual_seed(0)


def live_counts() -> dict[str, int]:
    gc.collect()
    module = target()
    counts: dict[str, int] = module._core.live_counts()
    return {kind: counts[kind] for kind in ("tensors", "nodes", "storages")}


@pytest.fixture(autouse=True)
def leaks(request: pytest.FixtureRequest, seeds: None) -> Iterator[None]:
    module = target()
    tracked = (
        request.config.getoption("--leaks")
        and hasattr(getattr(module, "_core", None), "live_counts")
        and request.node.get_closest_marker("keeps_tensors") is None
        # Tests of tools in other processes have nothing to leak here.
        and os.sep + "tools" + os.sep not in str(request.node.path)
    )
    if not tracked:
        yield
        return
    before = live_counts()
    yield
    # Exceptions of the test itself hold frames, which hold tensors.
    sys.last_exc = None
    after = live_counts()
    grown = {kind: after[kind] - before[kind] for kind in before if after[kind] > before[kind]}
    if grown:
        pytest.fail(f"still alive after the test: {grown}")

"""The module under test, as `weft`.

`WEFT_TEST_MODULE=torch` runs the same tests against PyTorch: a test about semantics that both share
must pass there first. Tests of what only weft has are marked `weft_only`.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest

MODULE_NAME = os.environ.get("WEFT_TEST_MODULE", "weft")
IS_WEFT = MODULE_NAME == "weft"

weft: Any = importlib.import_module(MODULE_NAME)

weft_only = pytest.mark.skipif(not IS_WEFT, reason="about something that only weft has")


def submodule(path: str) -> Any:
    """`weft.<path>`, skipping the calling module's tests where it does not exist yet."""
    return pytest.importorskip(f"{MODULE_NAME}.{path}")

"""Runs one module of this package as a process of its own and reads the JSON it prints."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_STACK_BYTES = 8192 * 1024  # `ulimit -s 8192`


class ChildError(Exception):
    """The process failed; the text is one line."""


def json_of(
    module: str,
    *arguments: str,
    environment: dict[str, str] | None = None,
    default_stack: bool = False,
    timeout: float = 120,
) -> Any:
    """What `python -m module arguments...` printed last, as JSON."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env={**os.environ, **(environment or {})},
            timeout=timeout,
            check=False,
            preexec_fn=_use_default_stack if default_stack else None,
        )
    except subprocess.TimeoutExpired:
        raise ChildError(f"stopped after {timeout:.0f} s") from None
    if done.returncode != 0:
        raise ChildError(_reason(done.returncode, done.stderr))
    return json.loads(done.stdout.strip().splitlines()[-1])


def _reason(status: int, complaint: str) -> str:
    lines = complaint.strip().splitlines()
    return lines[-1] if lines else f"the process ended with status {status}"


def _use_default_stack() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (DEFAULT_STACK_BYTES, hard))

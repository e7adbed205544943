"""`import torch` means weft, inside this process: see `as_torch`.

Note [Programs as they are]
A program that says `import torch` is run unchanged: a finder in front of `sys.meta_path` answers
for `torch` and everything below it with modules that look their names up in weft. What weft has
under the same path is simply there (`torch.nn.Linear` *is* `weft.nn.Linear`). What only makes sense
in PyTorch's own build (compilers, scripting, versions) is answered by `_answers.py` so that
ordinary CPU programs go on. Anything else is an error at the line that asks for it, naming the
nearest thing that exists: a program never runs on with a silent substitute.
"""

from __future__ import annotations

import sys
from types import ModuleType

from weft.torch_names._finder import FacadeFinder

__all__ = ["as_torch"]

_finder: FacadeFinder | None = None


def as_torch() -> ModuleType:
    """Makes ``import torch``, ``torch.nn``, ``torch.utils.data``... resolve to weft.

    For a whole program or notebook, in this process only; call it before anything imports torch.
    ``weft run script.py`` does so for a script. Returns what ``import torch`` gives from then on.

    >>> import weft
    >>> torch = weft.as_torch()
    >>> from torch import nn
    >>> nn.Linear is weft.nn.Linear
    True
    """
    global _finder
    if _finder is None:
        present = sys.modules.get("torch")
        if present is not None:
            raise RuntimeError(
                "as_torch(): PyTorch itself has already been imported in this process "
                f"(from {getattr(present, '__file__', 'an unknown place')}). Call weft.as_torch() "
                "before the first `import torch`."
            )
        _finder = FacadeFinder()
        sys.meta_path.insert(0, _finder)
    import importlib

    return importlib.import_module("torch")

"""Named tuples for operations that return several tensors."""

from __future__ import annotations

from typing import Any

from weft import _core


def result_type(name: str, *fields: str) -> Any:
    """``weft.return_types.<name>``, made when first asked for: called with a tuple of results.

    Operations written in C++ name their results in the schema, ``-> (Tensor values, Tensor
    indices)``, and get the same types.
    """
    return _core.result_type_of(name, fields)

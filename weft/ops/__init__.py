"""The operations of weft, where they come from and under which names they are offered.

Those written in C++ are in ``_core.ops``; those made of others are functions of the modules of this
package, registered by ``@composed``.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from weft import _core

_FAMILIES = (
    "elementwise",
    "activation",
    "reduction",
    "losses",
    "normalisation",
    "creation",
    "shape",
    "random",
    "conversion",
    "linear_algebra",
    "indexing",
    "sorting",
)
for _family in _FAMILIES:
    if importlib.util.find_spec(f"weft.ops.{_family}") is not None:
        importlib.import_module(f"weft.ops.{_family}")


def operations(namespace: str = "") -> dict[str, Callable[..., Any]]:
    """The operations of ``weft`` itself, or of ``nn.functional``, ``linalg`` or ``special``."""
    from weft.ops._composed import composed_operations, second_names

    if namespace == "nn.functional":
        found = dict(_core.functional)
    elif namespace:
        prefix = namespace + "_"
        found = {
            name.removeprefix(prefix): function
            for name, function in _core.ops.items()
            if name.startswith(prefix)
        }
    else:
        offered = vars(_core)
        found = {
            name: function
            for name, function in _core.ops.items()
            if offered.get(name) is function and not name.startswith(("linalg_", "special_"))
        }
    for operation in composed_operations:
        if operation.namespace == namespace and "function" in operation.kinds:
            found[operation.name] = operation.call
    first_names = operations() if namespace else found
    for second in second_names:
        if second.namespace == namespace and second.of in first_names:
            found[second.name] = first_names[second.of]
    return found

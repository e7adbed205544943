"""The operations of weft, where they come from and under which names they are offered.

Those written in C++ are in ``_core.ops``; those made of others are functions of the modules of this
package, registered by ``@composed``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import _core
from weft.ops import (  # noqa: F401  (registers what they define)
    activation,
    attention,
    conversion,
    creation,
    decompositions,
    dropout,
    elementwise,
    embedding,
    indexing,
    linear_algebra,
    losses,
    margin_losses,
    normalisation,
    padding,
    pooling,
    random,
    recurrent,
    reduction,
    shape,
    sorting,
    upsampling,
)
from weft.ops._composed import composed_operations, second_names

# Methods that PyTorch offers as functions, too: `weft.exp_(x)` for `x.exp_()`.
_IN_PLACE_FUNCTIONS = (
    "abs", "acos", "acosh", "addmv", "arccos", "arccosh", "arcsin", "arcsinh", "arctan",
    "arctanh", "asin", "asinh", "atan", "atanh", "ceil", "clamp", "clamp_max",
    "clamp_min", "clip", "conj_physical", "cos", "cosh", "deg2rad", "erf", "erfc", "exp2",
    "exp", "expm1", "fill", "fix", "floor", "frac", "gcd", "i0", "index_put", "lcm",
    "ldexp", "log10", "log1p", "log2", "log", "logit", "nan_to_num", "neg", "negative",
    "rad2deg", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sin", "sinc", "sinh",
    "sqrt", "square", "tan", "tanh", "trunc", "xlogy", "zero",
)  # fmt: skip


def operations(namespace: str = "") -> dict[str, Callable[..., Any]]:
    """The operations of ``weft`` itself, or of ``nn.functional``, ``linalg`` or ``special``."""
    if namespace:
        prefix = namespace + "_"
        found = {
            name.removeprefix(prefix): function
            for name, function in _core.ops.items()
            if name.startswith(prefix)
        }
        if namespace == "nn.functional":
            found.update(_core.functional)
    else:
        offered = vars(_core)
        found = {
            name: function
            for name, function in _core.ops.items()
            if offered.get(name) is function and not name.startswith(("_", "linalg_", "special_"))
        }
        methods = vars(_core.Tensor)
        found.update({f"{n}_": methods[f"{n}_"] for n in _IN_PLACE_FUNCTIONS if f"{n}_" in methods})
    for operation in composed_operations:
        if operation.namespace == namespace and "function" in operation.kinds:
            found[operation.name] = operation.call
    first_names = operations() if namespace else found
    for second in second_names:
        if second.namespace == namespace and second.of in first_names:
            found[second.name] = first_names[second.of]
    return found

"""Results of two modules, compared: structure, dtype, shape, layout, values."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from . import bridge

# (relative, absolute). Both libraries round; neither is the truth.
TOLERANCES = {
    "float64": (1e-7, 1e-9),
    "float32": (4e-6, 1e-5),
    "float16": (2e-3, 1e-3),
    "bfloat16": (1.6e-2, 1e-2),
}
GRADIENT_TOLERANCES = {**TOLERANCES, "float32": (2e-5, 2e-5)}


class Mismatch(Exception):
    """Two results differ. `kind` is one word; reports are sorted by it."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def describe(value: Any) -> str:
    """Short text of an argument or result, of either library."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{bridge.dtype_name(value.dtype)}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(describe(item) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, dict):
        return ", ".join(f"{key}={describe(item)}" for key, item in value.items())
    return repr(value)


def same(actual: Any, expected: Any, module: Any, *, values: bool = True) -> None:
    """Raises `Mismatch` unless `actual` (of `module`) is what `expected` (of torch) is."""
    if isinstance(expected, torch.Tensor):
        same_tensor(actual, expected, module, values=values)
    elif isinstance(expected, torch.Size):
        if tuple(actual) != tuple(expected):
            raise Mismatch("value", f"{actual!r}, torch {expected!r}")
    elif isinstance(expected, torch.dtype):
        if bridge.dtype_name(actual) != bridge.dtype_name(expected):
            raise Mismatch("dtype", f"{actual!r}, torch {expected!r}")
    elif isinstance(expected, (list, tuple)):
        if not isinstance(actual, (list, tuple)) or len(actual) != len(expected):
            raise Mismatch("structure", f"{describe(actual)}, torch {describe(expected)}")
        for field in result_fields(expected):
            if not hasattr(actual, field):
                raise Mismatch("structure", f"result has no field `{field}`")
        for one, other in zip(actual, expected, strict=True):
            same(one, other, module, values=values)
    elif type(actual) is not type(expected):
        raise Mismatch("structure", f"{actual!r}, torch {expected!r}")
    elif values and actual != expected and not same_scalar(actual, expected):
        raise Mismatch("value", f"{actual!r}, torch {expected!r}")


def result_fields(value: Any) -> list[str]:
    """`values`, `indices` of `torch.return_types.max`; nothing for a plain tuple."""
    if not type(value).__module__.startswith("torch.return_types"):
        return []
    members = vars(type(value)).items()
    return [name for name, member in members if type(member).__name__ == "member_descriptor"]


def same_scalar(actual: Any, expected: Any) -> bool:
    if not isinstance(expected, float):
        return False
    return bool(np.isclose(actual, expected, rtol=1e-6, atol=1e-8, equal_nan=True))


def same_tensor(actual: Any, expected: torch.Tensor, module: Any, *, values: bool = True) -> None:
    same_form(actual, expected, module)
    if values:
        tolerance = TOLERANCES.get(bridge.dtype_name(expected.dtype), (0.0, 0.0))
        same_values(actual, expected, module, tolerance)


def same_form(actual: Any, expected: torch.Tensor, module: Any) -> None:
    if not bridge.is_tensor(actual, module):
        raise Mismatch("structure", f"{type(actual).__name__}, torch {describe(expected)}")
    if bridge.dtype_name(actual.dtype) != bridge.dtype_name(expected.dtype):
        raise Mismatch("dtype", f"{describe(actual)}, torch {describe(expected)}")
    if tuple(actual.shape) != tuple(expected.shape):
        raise Mismatch("shape", f"{describe(actual)}, torch {describe(expected)}")


def same_values(
    actual: Any,
    expected: torch.Tensor,
    module: Any,
    tolerance: tuple[float, float],
    *,
    scaled: bool = False,
) -> None:
    """`scaled` takes the absolute tolerance relative to the largest element: for sums of many."""
    ours, theirs = bridge.to_numpy(actual, module), bridge.to_numpy(expected, torch)
    if theirs.dtype.kind in "biu":
        wrong = ours != theirs
    else:
        relative, absolute = tolerance
        ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
        if scaled and theirs.size:
            absolute *= max(1.0, float(np.abs(np.where(np.isfinite(theirs), theirs, 0)).max()))
        wrong = ~np.isclose(ours, theirs, rtol=relative, atol=absolute, equal_nan=True)
    if wrong.any():
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise Mismatch(
            "value",
            f"{int(wrong.sum())} of {wrong.size} elements differ in {describe(expected)}, first "
            f"{list(first)}: {ours[first]!r}, torch {theirs[first]!r}",
        )


def same_aliasing(
    actual: Any, expected: torch.Tensor, actual_input: Any, expected_input: torch.Tensor
) -> None:
    """A view in PyTorch is a view here, with the same strides; a fresh tensor is fresh."""
    is_view = bridge.overlaps(expected, expected_input)
    if bridge.overlaps(actual, actual_input) != is_view:
        raise Mismatch("alias", "copies where torch views" if is_view else "views; torch copies")
    if not is_view:
        return
    for length, step, torch_step in zip(
        expected.shape, actual.stride(), expected.stride(), strict=True
    ):
        if length > 1 and step != torch_step:
            raise Mismatch("stride", f"{actual.stride()}, torch {expected.stride()}")


def same_gradient(actual: Any, expected: torch.Tensor | None, module: Any) -> None:
    """`None` and zeros are the same gradient."""
    if expected is None:
        if actual is not None and bridge.to_numpy(actual, module).any():
            raise Mismatch("gradient", "a gradient where torch has none")
        return
    if actual is None:
        if bool((expected != 0).any()):
            raise Mismatch("gradient", f"None, torch {describe(expected)}")
        return
    try:
        same_form(actual, expected, module)
        tolerance = GRADIENT_TOLERANCES.get(bridge.dtype_name(expected.dtype), (0.0, 0.0))
        same_values(actual, expected, module, tolerance, scaled=True)
    except Mismatch as mismatch:
        raise Mismatch("gradient", str(mismatch)) from None

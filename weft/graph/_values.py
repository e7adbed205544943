"""What is told of a tensor's values: small ones in full, large ones as statistics."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

# A tensor of at most this many elements is shown in full.
FULL_LIMIT = 64


class Value(NamedTuple):
    """A tensor as it was when it was looked at; later writes do not change it."""

    shape: tuple[int, ...]
    dtype: str
    elements: Any  # nested lists of numbers; None for a large tensor
    statistics: dict[str, float]  # min, max, mean, std, norm of the finite elements; counts

    @property
    def norm(self) -> float:
        """The 2-norm, NaN or infinite where an element is."""
        if self.statistics.get("nan"):
            return math.nan
        return math.inf if self.statistics.get("inf") else self.statistics.get("norm", 0.0)


def dtype_text(dtype: Any) -> str:
    """``float32`` for ``torch.float32``."""
    return str(dtype).rpartition(".")[2]


def shape_text(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def bytes_text(count: float) -> str:
    """``100.5 KB``; decimal units, as memory is usually quoted."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 999.5 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def number_text(value: float) -> str:
    """A number in at most nine characters."""
    return f"{value:.3g}"


def look(tensor: Any) -> Value:
    """Copies what is worth telling of ``tensor``. Leaves no trace in any graph."""
    plain = tensor.detach()
    shape, dtype = tuple(plain.shape), dtype_text(plain.dtype)
    count = plain.numel()
    if count <= FULL_LIMIT:
        elements = plain.tolist()
        return Value(shape, dtype, _rounded(elements), _of_numbers(_flat(elements)))
    return Value(shape, dtype, None, _of_large(plain))


def _flat(elements: Any) -> list[float]:
    if not isinstance(elements, list):
        return [float(elements)]
    return [number for part in elements for number in _flat(part)]


def _rounded(elements: Any) -> Any:
    """Seven digits: what a float32 holds, in a third of the space of its decimal expansion."""
    if isinstance(elements, list):
        return [_rounded(part) for part in elements]
    return float(f"{elements:.7g}") if isinstance(elements, float) else elements


def _of_numbers(numbers: list[float]) -> dict[str, float]:
    finite = [n for n in numbers if math.isfinite(n)]
    found = _counts(len(numbers), len(finite), sum(map(math.isnan, numbers)))
    if finite:
        mean = math.fsum(finite) / len(finite)
        found |= {
            "min": min(finite),
            "max": max(finite),
            "mean": mean,
            "std": math.sqrt(math.fsum((n - mean) ** 2 for n in finite) / len(finite)),
            "norm": math.hypot(*finite),
            "zeros": finite.count(0.0),
        }
    return found


def _of_large(plain: Any) -> dict[str, float]:
    numbers = plain.double().flatten()
    is_finite = numbers.isfinite()
    nan = int(numbers.isnan().sum().item())
    finite_count = int(is_finite.sum().item())
    found = _counts(numbers.numel(), finite_count, nan)
    if finite_count == 0:
        return found
    finite = numbers if finite_count == numbers.numel() else numbers[is_finite]
    mean = finite.mean()
    return found | {
        "min": finite.min().item(),
        "max": finite.max().item(),
        "mean": mean.item(),
        "std": (finite - mean).square().mean().sqrt().item(),
        "norm": finite.square().sum().sqrt().item(),
        "zeros": int((finite == 0).sum().item()),
    }


def _counts(count: int, finite: int, nan: int) -> dict[str, float]:
    found: dict[str, float] = {"count": count}
    if nan:
        found["nan"] = nan
    if count - finite - nan:
        found["inf"] = count - finite - nan
    return found

"""Order and distinct values: what is made of the operations of core/ops/{sort,search}.cpp."""

from __future__ import annotations

from weft import _core
from weft._core import Tensor
from weft.ops._composed import composed

Number = bool | int | float


def _into(out: Tensor | None, result: Tensor) -> Tensor:
    """``result``, written into ``out`` where that is given and of the same dtype."""
    if out is None:
        return result
    if out.dtype != result.dtype:
        raise RuntimeError(
            f"Expected out tensor to have dtype {result.dtype}, but got {out.dtype} instead"
        )
    _core._write_out(out, result)
    return out


@composed(kinds="function method")
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input`` sorted along its first dimension; equal elements keep their order."""
    return _into(out, input.sort(0, stable=True)[0])


# -- distinct values -----------------------------------------------------------------------------


def _distinct(
    input: Tensor,
    consecutive: bool,
    return_inverse: bool,
    return_counts: bool,
    dim: int | None,
) -> Tensor | tuple[Tensor, ...]:
    asked: list[Tensor | None] = _core.ops["_unique"](
        input, consecutive, return_inverse, return_counts, dim
    )
    results = tuple(result for result in asked if result is not None)
    return results if return_inverse or return_counts else results[0]


@composed(kinds="function method")
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """The distinct elements of ``input``, or its distinct slices along ``dim``, in ascending order.

    With ``return_inverse``, also where each element went; with ``return_counts``, also how often
    each one occurs. The result is sorted whatever ``sorted`` says.
    """
    return _distinct(input, False, return_inverse, return_counts, dim)


@composed(kinds="function method")
def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """``input`` with all but the first of equal neighbours left out (slices, with ``dim``).

    With ``return_inverse``, also where each element went; with ``return_counts``, also how long
    each run was.
    """
    return _distinct(input, True, return_inverse, return_counts, dim)


@composed(kinds="function")
def isin(
    elements: Tensor | Number,
    test_elements: Tensor | Number,
    *,
    assume_unique: bool = False,
    invert: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Which of ``elements`` occur in ``test_elements`` (with ``invert``: which do not)."""
    if not isinstance(elements, Tensor):
        if not isinstance(test_elements, Tensor):
            raise TypeError("isin(): one of elements and test_elements must be a Tensor")
        elements = _core.ops["scalar_tensor"](elements).to(test_elements.dtype)
    if not isinstance(test_elements, Tensor):
        test_elements = _core.ops["scalar_tensor"](test_elements).to(elements.dtype)
    wanted = test_elements.reshape(-1).sort()[0]
    if wanted.numel() == 0:
        met = elements < elements
    else:
        places = _core.searchsorted(wanted, elements).clamp(max=wanted.numel() - 1)
        met = wanted[places] == elements
    return _into(out, ~met if invert else met)


@composed(kinds="function method")
def histc(
    input: Tensor,
    bins: int = 100,
    min: Number = 0,
    max: Number = 0,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Counts the elements in ``bins`` equal intervals between ``min`` and ``max``.

    Elements outside are left out. Where both bounds are equal, those of the data are taken.
    """
    if bins <= 0:
        raise RuntimeError("bins must be > 0")
    values = input.detach().reshape(-1)
    low, high = float(min), float(max)
    if low == high and values.numel() > 0:
        low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (low - low == 0 and high - high == 0):
        raise RuntimeError(f"range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError("max must be larger than min")
    inside = values[(values >= low) & (values <= high)]
    places = ((inside - low) * bins / (high - low)).long().clamp(max=bins - 1)
    return _into(out, _core.bincount(places, minlength=bins).to(input.dtype))

"""How an einsum is carried out: worked out once per equation and shapes, then replayed.

Every operand is prepared (diagonals of repeated subscripts, sums over those that nobody else
needs), then operands are multiplied pairwise from the left. A pair is one (batched) matrix product:
subscripts that both have and that are needed later are the batch, those that both have and nobody
needs any more are summed, the others are rows and columns.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

Label = Hashable  # a letter, or for a dimension covered by "..." its place counted from the end
Labels = tuple[Label, ...]
Shape = tuple[int, ...]


class Preparation(NamedTuple):
    """What is done to one operand first: diagonals, then sizes of one dropped, then sums."""

    diagonals: tuple[tuple[int, int], ...]
    dropped: Shape
    summed: Shape


class Contraction(NamedTuple):
    """One product. None stands for "as it is"."""

    left_order: Shape | None
    left_shape: Shape | None
    right_order: Shape | None
    right_shape: Shape | None
    elementwise: bool  # nothing is summed: a broadcast multiplication
    result_shape: Shape | None


class Plan(NamedTuple):
    """One entry per operand; the first needs no contraction."""

    preparations: tuple[Preparation | None, ...]
    contractions: tuple[Contraction | None, ...]
    result_order: Shape | None


def _order(labels: Labels, wanted: Sequence[Label]) -> Shape | None:
    order = tuple(labels.index(label) for label in wanted)
    return None if order == tuple(range(len(labels))) else order


def contraction_of(
    left: Labels, left_shape: Shape, right: Labels, right_shape: Shape, keep: frozenset[Label]
) -> Contraction:
    """The product of two operands; the result has the batch, the rows, then the columns."""
    size = dict(zip(left, left_shape, strict=True)) | dict(zip(right, right_shape, strict=True))
    batch, rows, columns, summed = _roles(left, right, keep)
    left_wanted, right_wanted = [*batch, *rows, *summed], [*batch, *summed, *columns]
    sizes = [size[label] for label in (*batch, *rows, *columns)]

    def volume(labels: Iterable[Label]) -> int:
        return math.prod(size[label] for label in labels)

    if not summed:
        left_3d = [size[label] for label in (*batch, *rows)] + [1] * len(columns)
        right_3d = [
            *(size[label] for label in batch),
            *([1] * len(rows)),
            *(size[label] for label in columns),
        ]
        result = sizes
    else:
        left_3d = [volume(rows), volume(summed)]
        right_3d = [volume(summed), volume(columns)]
        result = [volume(rows), volume(columns)]
        if batch:
            left_3d.insert(0, volume(batch))
            right_3d.insert(0, volume(batch))
            result.insert(0, volume(batch))

    def reshaped(to: Sequence[int], wanted: Sequence[Label]) -> Shape | None:
        return None if list(to) == [size[label] for label in wanted] else tuple(to)

    return Contraction(
        _order(left, left_wanted),
        reshaped(left_3d, left_wanted),
        _order(right, right_wanted),
        reshaped(right_3d, right_wanted),
        not summed,
        None if result == sizes else tuple(sizes),
    )


def _roles(left: Labels, right: Labels, keep: frozenset[Label]) -> tuple[Labels, ...]:
    """Batch, rows, columns and summed subscripts of a product."""
    batch = tuple(label for label in left if label in right and label in keep)
    rows = tuple(label for label in left if label not in right)
    columns = tuple(label for label in right if label not in left)
    summed = tuple(label for label in left if label in right and label not in keep)
    return batch, rows, columns, summed


@functools.lru_cache(maxsize=1024)
def plan_einsum(equation: str, shapes: tuple[Shape, ...]) -> Plan:
    """The steps for operands of these shapes."""
    terms, wanted = _parse(equation, shapes)
    sizes = _sizes(terms, shapes)
    reduced = [_without_repeats(*operand, sizes) for operand in zip(terms, shapes, strict=True)]
    remaining = [labels for _, _, labels, _ in reduced]
    preparations: list[Preparation | None] = []
    operands: list[tuple[Labels, Shape]] = []
    for index, (diagonals, dropped, labels, shape) in enumerate(reduced):
        needed = frozenset(wanted).union(*remaining[:index], *remaining[index + 1 :])
        summed = tuple(at for at, label in enumerate(labels) if label not in needed)
        ready = Preparation(diagonals, dropped, summed)
        preparations.append(ready if any(ready) else None)
        left = [at for at in range(len(labels)) if at not in summed]
        operands.append((tuple(labels[at] for at in left), tuple(shape[at] for at in left)))
    contractions: list[Contraction | None] = [None]
    labels, shape = operands[0]
    for index, (right, right_shape) in enumerate(operands[1:], 1):
        keep = frozenset(wanted).union(*remaining[index + 1 :])
        contractions.append(contraction_of(labels, shape, right, right_shape, keep))
        batch, rows, columns, _ = _roles(labels, right, keep)
        size = dict(zip(labels, shape, strict=True)) | dict(zip(right, right_shape, strict=True))
        labels = (*batch, *rows, *columns)
        shape = tuple(size[label] for label in labels)
    order = _order(labels, wanted)
    if order is None and len(operands) == 1:
        order = tuple(range(len(labels)))  # the result is another tensor than the operand
    return Plan(tuple(preparations), tuple(contractions), order)


def _without_repeats(
    term: Labels, shape: Shape, sizes: dict[Label, int]
) -> tuple[tuple[tuple[int, int], ...], Shape, Labels, Shape]:
    """The diagonals to take, the sizes of one to drop, then the subscripts and sizes left."""
    left = list(zip(term, shape, strict=True))
    diagonals = []
    while repeated := [label for label, _ in left if [x for x, _ in left].count(label) > 1]:
        first, second = [at for at, (label, _) in enumerate(left) if label == repeated[0]][:2]
        diagonals.append((first, second))
        pair = left[first]
        left = [item for at, item in enumerate(left) if at not in (first, second)] + [pair]
    # A size of one broadcasts against the others': the operand does without.
    dropped = tuple(at for at, (label, size) in enumerate(left) if size == 1 != sizes[label])
    left = [item for at, item in enumerate(left) if at not in dropped]
    labels, remaining = tuple(label for label, _ in left), tuple(size for _, size in left)
    return tuple(diagonals), dropped, labels, remaining


def _sizes(terms: Sequence[Labels], shapes: Sequence[Shape]) -> dict[Label, int]:
    """The size of every subscript. Sizes of one broadcast between operands, not within one."""
    sizes: dict[Label, int] = {}
    for index, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        own: dict[Label, int] = {}
        for label, size in zip(term, shape, strict=True):
            if own.setdefault(label, size) != size:
                raise RuntimeError(
                    f"einsum(): subscript {label} is repeated for operand {index} "
                    f"but the sizes don't match, {size} != {own[label]}"
                )
        for label, size in own.items():
            seen = sizes.get(label, 1)
            if size != seen and size != 1 and seen != 1:
                what = f"subscript {label}"
                if isinstance(label, int):
                    what = f"dimension {label} (from the end) covered by ellipsis"
                raise RuntimeError(
                    f"einsum(): {what} has size {size} for operand {index} "
                    f"which does not broadcast with previously seen size {seen}"
                )
            sizes[label] = size if seen == 1 else seen
    return sizes


def _parse(equation: str, shapes: Sequence[Shape]) -> tuple[list[Labels], Labels]:
    """The subscripts of every operand and of the result, ellipses expanded."""
    inputs, arrow, output = equation.partition("->")
    terms_text = inputs.split(",")
    if len(terms_text) != len(shapes):
        which = "fewer" if len(terms_text) > len(shapes) else "more"
        raise RuntimeError(
            f"einsum(): {which} operands were provided than specified in the equation"
        )
    terms: list[Labels] = []
    start = 0
    for index, (text, shape) in enumerate(zip(terms_text, shapes, strict=True)):
        before, dots, after = _letters_of(text, start, f"operand {index}")
        start += len(text) + 1
        named = len(before) + len(after)
        covered = len(shape) - named
        if covered < 0 or (covered > 0 and not dots):
            no_dots = "" if dots else " and no ellipsis was given"
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) "
                f"{'is more than' if dots else 'does not match'} the number of dimensions "
                f"({len(shape)}) for operand {index}{no_dots}"
            )
        terms.append((*before, *range(covered, 0, -1), *after))
    most_covered = max(sum(isinstance(label, int) for label in term) for term in terms)
    ellipsis = tuple(range(most_covered, 0, -1))
    if not arrow:
        letters = [label for term in terms for label in term if isinstance(label, str)]
        once = sorted(label for label in set(letters) if letters.count(label) == 1)
        return terms, (*ellipsis, *once)
    before, dots, after = _letters_of(output, start + 1, "output")
    present = {label for term in terms for label in term}
    for at, letter in enumerate([*before, *after]):
        if letter in [*before, *after][:at]:
            raise RuntimeError(
                f"einsum(): output subscript {letter} appears more than once in the output"
            )
        if letter not in present:
            raise RuntimeError(
                f"einsum(): output subscript {letter} does not appear in the equation for any "
                "input operand"
            )
    return terms, (*before, *(ellipsis if dots else ()), *after)


def _letters_of(text: str, start: int, place: str) -> tuple[list[str], bool, list[str]]:
    """The letters before and after the ellipsis, and whether there is one."""
    before: list[str] = []
    after: list[str] = []
    dots = False
    at = 0
    while at < len(text):
        letter = text[at]
        if letter == ".":
            if dots:
                found = "but an ellipsis (...) was already found"
                if place != "output":
                    found = "for which an ellipsis was already found"
                raise RuntimeError(f"einsum(): found '.' for {place} {found}")
            if text[at : at + 3] != "...":
                raise RuntimeError(
                    f"einsum(): found '.' for {place} that is not part of any ellipsis (...)"
                )
            dots = True
            at += 3
            continue
        if letter != " ":
            if not (letter.isascii() and letter.isalpha()):
                raise RuntimeError(
                    f"einsum(): invalid subscript given at index {start + at} in the equation "
                    "string, subscripts must be in [a-zA-Z]"
                )
            (after if dots else before).append(letter)
        at += 1
    return before, dots, after

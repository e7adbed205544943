"""A step length that satisfies the strong Wolfe conditions, along one direction.

Note [The strong Wolfe conditions]
Along a direction of descent the loss is a function of the step length alone. A step is good
enough when the loss has fallen in proportion to the step and to the slope at the start, and when
the slope has become much flatter. The search first goes outwards until two points must have such a
step between them, then narrows that bracket; each time it tries the minimum of the cubic that has
the same losses and slopes at both ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

DECREASE = 1e-4  # of what the slope at the start promises
FLATTER = 0.9  # than the slope at the start
MOST_TRIES = 25


class Point(NamedTuple):
    """A step length, and what was found there."""

    step: float
    loss: float
    gradient: Any  # of all parameters, in one row
    slope: float  # of the loss along the direction


def cubic_minimum(one: Point, other: Point, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through both points is smallest, within bounds (or between the points)."""
    left, right = (one, other) if one.step <= other.step else (other, one)
    low, high = bounds or (left.step, right.step)
    width = right.step - left.step
    if width == 0:
        return low
    bend = left.slope + right.slope - 3 * (right.loss - left.loss) / width
    under_root = bend * bend - left.slope * right.slope
    if not under_root >= 0:
        return (low + high) / 2
    root = math.sqrt(under_root)
    divisor = right.slope - left.slope + 2 * root
    if divisor == 0:
        return (low + high) / 2
    minimum = right.step - width * ((right.slope + root - bend) / divisor)
    return min(max(minimum, low), high)


def strong_wolfe(
    evaluate: Callable[[float], Point], start: Point, step: float, reach: float, tolerance: float
) -> tuple[Point, int]:
    """A good point, and how often ``evaluate`` was called.

    ``reach`` is the largest element of the direction: where the bracket times it falls below
    ``tolerance``, the search ends with the best point so far.
    """

    def is_too_high(point: Point) -> bool:
        return point.loss > start.loss + DECREASE * point.step * start.slope

    def is_flat(point: Point) -> bool:
        return abs(point.slope) <= -FLATTER * start.slope

    before, point = start, evaluate(step)
    tries = 0
    while tries < MOST_TRIES:
        if is_too_high(point) or (tries > 1 and point.loss >= before.loss):
            break
        if is_flat(point):
            return point, tries + 1
        if point.slope >= 0:
            break
        outwards = (point.step + 0.01 * (point.step - before.step), point.step * 10)
        before, point = point, evaluate(cubic_minimum(before, point, outwards))
        tries += 1
    else:
        before = start

    bracket = [before, point]
    low = 0 if before.loss <= point.loss else 1
    slow = False  # the last try came close to an end of the bracket
    while tries < MOST_TRIES:
        left, right = sorted(end.step for end in bracket)
        if (right - left) * reach < tolerance:
            break
        step = cubic_minimum(bracket[0], bracket[1])
        margin = 0.1 * (right - left)
        if min(right - step, step - left) < margin:
            if slow or step >= right or step <= left:
                nearer_right = abs(step - right) < abs(step - left)
                step = right - margin if nearer_right else left + margin
                slow = False
            else:
                slow = True
        else:
            slow = False
        point = evaluate(step)
        tries += 1
        if is_too_high(point) or point.loss >= bracket[low].loss:
            bracket[1 - low] = point
            low = 0 if bracket[0].loss <= bracket[1].loss else 1
            continue
        if is_flat(point):
            return point, tries + 1
        if point.slope * (bracket[1 - low].step - bracket[low].step) >= 0:
            bracket[1 - low] = bracket[low]
        bracket[low] = point
    return bracket[low], tries + 1

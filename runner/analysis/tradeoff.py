"""Throughput against interactivity: a condition and its baseline at equal speed for the user.

A curve joins the measured points of one condition by rising concurrency. Between two points it is
taken as straight, outside of the measured range it says nothing. Where a curve bends back, the best
value it reaches counts, as who runs a server would choose that load.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np

from runner.analysis.interval import Interval
from runner.analysis.measured import MeasuredAttempt
from runner.analysis.replicates import Replicates, replicates
from runner.analysis.resampling import RESAMPLES, Floats, middle
from runner.analysis.speedup import INTERACTIVITY, THROUGHPUT, Comparison, Ratio

USED_RESAMPLES = 500
"""Of the resampled figures so many are joined to curves: an interval needs no more."""


class Held(StrEnum):
    """What is equal on both sides while the other figure is compared."""

    INTERACTIVITY = "interactivity"
    THROUGHPUT = "throughput"


@dataclass(frozen=True)
class CurvePoint:
    """One concurrency of one condition: means over repeats."""

    concurrency: int
    interactivity: float
    throughput: float
    paths: tuple[str, ...]


@dataclass(frozen=True)
class EqualPoint:
    """Both sides where `held` is equal to `at`; `ours` and `theirs` are the other figure."""

    held: Held
    at: float
    ours: float
    theirs: float
    ratio: Ratio


@dataclass(frozen=True)
class Tradeoff:
    """One comparison as two curves. `unavailable` says why nothing is interpolated."""

    comparison: Comparison
    ours: tuple[CurvePoint, ...]
    theirs: tuple[CurvePoint, ...]
    equal: tuple[EqualPoint, ...]
    unavailable: str | None = None


def tradeoff(comparison: Comparison) -> Tradeoff:
    """The comparison at equal interactivity and at equal throughput.

    It is taken at each measured point of the baseline that lies inside the range of the condition,
    and at each of the condition inside that of the baseline.
    """
    loads = [load for load in comparison.loads if not load.refused]
    ours = curve(load.ours for load in loads)
    theirs = curve(load.theirs for load in loads)
    if comparison.not_comparable:
        return Tradeoff(comparison, ours, theirs, (), comparison.not_comparable)
    if len(ours) < 2 or len(theirs) < 2:
        why = (
            f"{len(ours)} points of {comparison.name} and {len(theirs)} of "
            f"{comparison.baseline.configuration} have an interactivity; 2 of each are needed"
        )
        return Tradeoff(comparison, ours, theirs, (), why)
    sides = ours, theirs
    sampled = _sampled(comparison, ours), _sampled(comparison, theirs, baseline=True)
    equal = [
        point
        for held in Held
        for at, side, place in _measured(held, sides)
        if (point := _equal(held, at, sides, sampled, (side, place))) is not None
    ]
    apart = None if equal else "the measured ranges of both sides do not meet"
    return Tradeoff(comparison, ours, theirs, tuple(equal), apart)


def curve(loads: Iterable[Sequence[MeasuredAttempt]]) -> tuple[CurvePoint, ...]:
    """Measured points by rising concurrency; a load without an interactivity is left out."""
    points = []
    for attempts in loads:
        values = [(one.figure(INTERACTIVITY), one.figure(THROUGHPUT), one.path) for one in attempts]
        pairs = [
            (seen.value, made.value, path)
            for seen, made, path in values
            if seen is not None and made is not None and seen.value and made.value
        ]
        if attempts and len(pairs) == len(attempts):
            points.append(
                CurvePoint(
                    attempts[0].cell.concurrency,
                    interactivity=sum(seen for seen, _, _ in pairs) / len(pairs),
                    throughput=sum(made for _, made, _ in pairs) / len(pairs),
                    paths=tuple(path for _, _, path in pairs),
                )
            )
    return tuple(points)


def reached(xs: Iterable[float], ys: Iterable[float], at: float) -> float | None:
    """The highest y of the line through the points where x is `at`; None outside of its range."""
    found = []
    for (x0, y0), (x1, y1) in pairwise(zip(xs, ys, strict=True)):
        if min(x0, x1) <= at <= max(x0, x1):
            share = (at - x0) / (x1 - x0) if x1 != x0 else 0.0
            found.append(max(y0, y1) if x1 == x0 else y0 + share * (y1 - y0))
    return max(found, default=None)


def _measured(held: Held, sides: Sequence[Sequence[CurvePoint]]) -> list[tuple[float, int, int]]:
    """Where both curves are read: the measured values of either side, each once, by rising value;
    with the side (0 is the condition) and the place of the point on its curve."""
    found: dict[float, tuple[int, int]] = {}
    for side, points in enumerate(sides):
        for place, point in enumerate(points):
            at = point.interactivity if held is Held.INTERACTIVITY else point.throughput
            found.setdefault(at, (side, place))
    return [(at, *where) for at, where in sorted(found.items())]


def _axes(points: Sequence[CurvePoint], held: Held) -> tuple[list[float], list[float]]:
    seen = [point.interactivity for point in points]
    made = [point.throughput for point in points]
    return (seen, made) if held is Held.INTERACTIVITY else (made, seen)


Sampled = tuple[Floats, Floats] | None
"""Interactivity and throughput, each of shape (USED_RESAMPLES, points)."""


def _equal(
    held: Held,
    at: float,
    sides: Sequence[Sequence[CurvePoint]],
    sampled: tuple[Sampled, Sampled],
    where: tuple[int, int],
) -> EqualPoint | None:
    mine, base = (reached(*_axes(side, held), at) for side in sides)
    if mine is None or base is None or not base:
        return None
    ratio = Ratio(mine / base, _interval(held, sampled, where))
    return EqualPoint(held, at, mine, base, ratio)


def _interval(
    held: Held, sampled: tuple[Sampled, Sampled], where: tuple[int, int]
) -> Interval | None:
    """The ratio in each draw, read at the measured point itself, which moves with its curve."""
    if sampled[0] is None or sampled[1] is None:
        return None
    drawn = (sampled[0], sampled[1])
    side, place = where
    held_place = 0 if held is Held.INTERACTIVITY else 1
    values = np.full(USED_RESAMPLES, np.nan)
    for draw in range(USED_RESAMPLES):
        at = float(drawn[side][held_place][draw, place])
        mine, base = (
            reached(one[held_place][draw], one[1 - held_place][draw], at) for one in drawn
        )
        if mine is not None and base:
            values[draw] = mine / base
    return middle(values, "bootstrap over rows and repeats of every point")


def _sampled(
    comparison: Comparison, points: Sequence[CurvePoint], *, baseline: bool = False
) -> Sampled:
    found: list[Replicates] = []
    kept = {point.concurrency for point in points}
    for load in comparison.loads:
        if load.concurrency in kept:
            one = replicates(load.theirs if baseline else load.ours)
            if one is None:
                return None
            found.append(one)
    step = RESAMPLES // USED_RESAMPLES
    return (
        np.stack([one.interactivity[::step] for one in found], axis=1),
        np.stack([one.throughput[::step] for one in found], axis=1),
    )

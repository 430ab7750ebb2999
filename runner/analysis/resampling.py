"""Intervals by resampling the rows of a prompt set.

A row is a conversation: its turns stay together, as they depend on each other. Rows are drawn with
replacement, 2,000 times from a fixed seed, and an interval is the middle 95 % of what comes out
(percentile bootstrap; Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import stats

from runner.analysis.interval import Interval
from runner.analysis.requests import ABSENT, RequestColumns

Floats = npt.NDArray[np.float64]

RESAMPLES = 2000
LEVEL = 0.95
LEAST_ROWS = 5
"""Fewer rows than this are too few to draw from."""
LEAST_REPEATS = 3
"""Fewer repeats than this say nothing about how far equal cells lie apart."""
MOST_GROUPS = 2000
"""More rows than this are drawn in so many groups: as good, and bounded in memory."""
_SEED = 731_001


@lru_cache(maxsize=8)
def draws(rows: int) -> Floats:
    """How often each of `rows` rows is in each sample: shape (RESAMPLES, rows).

    Equal numbers of rows give equal draws, so that figures of the same rows on two servers are
    resampled together.
    """
    generator = np.random.default_rng((_SEED, rows))
    return generator.multinomial(rows, np.full(rows, 1 / rows), size=RESAMPLES).astype(np.float64)


def grouped(sums: Floats) -> Floats:
    """Rows put into at most MOST_GROUPS groups: shape (rows, columns) to (groups, columns)."""
    if len(sums) <= MOST_GROUPS:
        return sums
    places = np.arange(len(sums)) % MOST_GROUPS
    out = np.zeros((MOST_GROUPS, sums.shape[1]))
    np.add.at(out, places, sums)
    return out


def resampled(sums: Floats) -> Floats | None:
    """Column sums of every sample: shape (RESAMPLES, columns); None with too few rows."""
    if len(sums) < LEAST_ROWS:
        return None
    groups = grouped(sums)
    return draws(len(groups)) @ groups


def middle(values: Floats, method: str) -> Interval | None:
    """The middle 95 % of resampled values; None where some of them do not exist."""
    finite = values[np.isfinite(values)]
    if len(finite) < LEVEL * len(values) or not len(finite):
        return None
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(finite, [tail, 100 - tail])
    return Interval(float(low), float(high), method)


def ratio_interval(sums: Floats, numerator: int = 0, denominator: int = 1) -> Interval | None:
    """Interval of Σ numerator / Σ denominator over rows; None with too few rows or nothing to
    divide by."""
    totals = resampled(sums)
    if totals is None:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        return middle(
            totals[:, numerator] / totals[:, denominator],
            f"bootstrap over {len(sums):,} rows",
        )


def repeats_interval(ours: Sequence[float], theirs: Sequence[float]) -> Interval | None:
    """Interval of mean(ours) / mean(theirs) from repeats of two cells.

    A t interval of the logarithm of the ratio: the variance of log(mean) is s² / (n mean²) by the
    delta method, degrees of freedom by Welch and Satterthwaite. None with fewer than 3 repeats of
    either side.
    """
    if min(len(ours), len(theirs)) < LEAST_REPEATS or min(*ours, *theirs) <= 0:
        return None
    means = [float(np.mean(one)) for one in (ours, theirs)]
    parts = [
        float(np.var(one, ddof=1)) / (len(one) * mean**2)
        for one, mean in zip((ours, theirs), means, strict=True)
    ]
    variance, ratio = sum(parts), means[0] / means[1]
    method = f"t interval over {len(ours)} and {len(theirs)} repeats"
    if variance == 0:
        return Interval(ratio, ratio, method)
    freedom = variance**2 / sum(
        part**2 / (len(one) - 1) for part, one in zip(parts, (ours, theirs), strict=True)
    )
    reach = float(stats.t.ppf(0.5 + LEVEL / 2, freedom)) * variance**0.5
    return Interval(ratio * float(np.exp(-reach)), ratio * float(np.exp(reach)), method)


def row_sums(columns: RequestColumns, row_ids: Sequence[str], *values: Floats) -> Floats:
    """Values of a cell's requests summed by row: shape (rows, values), in the order of `row_ids`.

    A row that has no good request holds zeros, a request of another row is left out.
    """
    places = {name: place for place, name in enumerate(row_ids)}
    of_row = np.array([places.get(name, -1) for name in columns.row_ids] or [-1])
    rows = of_row[np.asarray(columns.row, dtype=np.int32)]
    known = rows >= 0
    out = np.zeros((len(row_ids), len(values)))
    for number, column in enumerate(values):
        np.add.at(out[:, number], rows[known], column[known])
    return out


def acceptance_sums(cells: Iterable[tuple[RequestColumns, Sequence[str]]]) -> Floats:
    """Per row of a prompt set, over its cells: drafted steps, steps + accepted, accepted, drafted.

    Rows of cells are put together by their ids: the same row at two concurrencies is one row. They
    stand in the order of their ids; one without a request is left out.
    """
    found: dict[str, Floats] = {}
    for columns, row_ids in cells:
        steps, accepted, drafted = (
            np.asarray(one, dtype=np.float64)
            for one in (columns.steps, columns.accepted, columns.drafted)
        )
        known = steps != ABSENT
        values = [np.where(known, one, 0.0) for one in (steps, steps + accepted, accepted, drafted)]
        counted = row_sums(columns, row_ids, *values, np.ones(len(columns)))
        for name, sums in zip(row_ids, counted, strict=True):
            if sums[-1]:
                found[name] = found[name] + sums[:-1] if name in found else sums[:-1]
    return np.array([found[name] for name in sorted(found)]).reshape(-1, 4)

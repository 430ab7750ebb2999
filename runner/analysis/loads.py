"""What a sweep tells about loads: where a drafter stops paying off, and which k is best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from runner.analysis.interval import Interval
from runner.analysis.measured import MeasuredAttempt
from runner.analysis.replicates import replicates
from runner.analysis.resampling import middle, repeats_interval
from runner.analysis.speedup import THROUGHPUT, Comparison, Judgement
from runner.models.plan import ServerPlan


@dataclass(frozen=True)
class BreakEven:
    """Where throughput stops (or starts) to gain from a condition, between measured loads.

    `concurrency` is interpolated on a logarithmic axis of concurrency; None where the ratio stays
    on one side of 1, which `text` says. `between` are the measured loads around it.
    """

    text: str
    concurrency: float | None = None
    between: tuple[int, int] | None = None


def break_even(comparison: Comparison) -> BreakEven:
    """The highest load at which the throughput ratio crosses 1; only inside the measured range."""
    points = [
        (load.concurrency, load.throughput.value)
        for load in comparison.loads
        if load.throughput.value is not None
    ]
    if not points:
        return BreakEven("no throughput ratio")
    loads = f"at every measured concurrency ({points[0][0]} to {points[-1][0]})"
    if len(points) == 1:
        loads = f"at the one measured concurrency ({points[0][0]})"
    if all(ratio > 1 for _, ratio in points):
        return BreakEven(f"above 1 {loads}")
    if all(ratio <= 1 for _, ratio in points):
        return BreakEven(f"not above 1 {loads}")
    (low, before), (high, after) = [
        pair for pair in pairwise(points) if (pair[0][1] > 1) != (pair[1][1] > 1)
    ][-1]
    share = (before - 1) / (before - after)
    at = 2 ** (math.log2(low) + share * (math.log2(high) - math.log2(low)))
    way = "falls below" if before > 1 else "rises above"
    judged = {
        load.throughput.judgement for load in comparison.loads if load.concurrency in (low, high)
    }
    text = f"{way} 1 at about {at:.3g}, between {low} and {high}"
    if Judgement.NO_DIFFERENCE in judged:
        text += "; the interval of one of these reaches 1"
    elif Judgement.NOT_KNOWN in judged:
        text += "; how sure these are is not known"
    return BreakEven(text, at, (low, high))


@dataclass(frozen=True)
class BestLength:
    """The draft length with the highest throughput at one load.

    `rivals` are lengths whose throughput can't be told apart from it: no significant difference.
    """

    prompts: str
    method: str
    concurrency: int
    k: int
    throughput: float
    rivals: tuple[int, ...]
    unknown: tuple[int, ...]
    paths: tuple[str, ...]


def best_lengths(comparisons: Iterable[Comparison]) -> tuple[BestLength, ...]:
    """The best k of each drafter at each load, where several were measured."""
    groups: dict[tuple[str, str, int, str], dict[int, Sequence[MeasuredAttempt]]] = {}
    for comparison in comparisons:
        family = _family(comparison.server)
        speculative = comparison.server.speculative
        if family is None or speculative is None or comparison.not_comparable:
            continue
        for load in comparison.loads:
            if load.ours:
                # lengths that are compared with one baseline differ from it in the drafter alone
                key = comparison.prompts, family, load.concurrency, comparison.baseline.id
                by_k = groups.setdefault(key, {})
                by_k.setdefault(speculative.num_speculative_tokens, load.ours)
    return tuple(_best(*key[:3], by_k) for key, by_k in sorted(groups.items()) if len(by_k) > 1)


def _family(server: ServerPlan) -> str | None:
    """Servers of one family differ in k alone."""
    speculative = server.speculative
    if speculative is None:
        return None
    settings = speculative.model_dump(exclude={"num_speculative_tokens"}, exclude_none=True)
    return ", ".join(f"{value}" for value in settings.values() if value not in (False, "", {}, ()))


def _best(
    prompts: str, family: str, concurrency: int, by_k: dict[int, Sequence[MeasuredAttempt]]
) -> BestLength:
    values = {k: _throughputs(attempts) for k, attempts in by_k.items()}
    means = {k: sum(found) / len(found) for k, found in values.items()}
    best = max(means, key=lambda k: (means[k], -k))
    rivals, unknown = [], []
    for k in sorted(means):
        if k == best:
            continue
        interval = _interval(by_k[best], by_k[k], values[best], values[k])
        if interval is None:
            unknown.append(k)
        elif interval.holds(1.0):
            rivals.append(k)
    return BestLength(
        prompts,
        family,
        concurrency,
        best,
        means[best],
        tuple(rivals),
        tuple(unknown),
        tuple(attempt.path for attempt in by_k[best]),
    )


def _throughputs(attempts: Sequence[MeasuredAttempt]) -> list[float]:
    figures = (attempt.figure(THROUGHPUT) for attempt in attempts)
    return [float(figure.value or 0) for figure in figures if figure is not None]


def _interval(
    ours: Sequence[MeasuredAttempt],
    theirs: Sequence[MeasuredAttempt],
    values: Sequence[float],
    others: Sequence[float],
) -> Interval | None:
    interval = repeats_interval(values, others)
    if interval is not None:
        return interval
    mine, base = replicates(ours), replicates(theirs)
    if mine is None or base is None:
        return None
    return middle(mine.throughput / base.throughput, "bootstrap over rows")

"""Speed-up of a condition over its baseline at equal concurrency, with intervals.

Throughput, interactivity and time to first token stay apart: each has its own ratio. Points are
matched: same host, rows, concurrency and limits, on servers that differ in nothing but the drafter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from runner.analysis.differences import server_differences
from runner.analysis.interval import Interval
from runner.analysis.lengths import compare_lengths
from runner.analysis.measured import MeasuredAttempt, MeasuredRun
from runner.analysis.replicates import Replicates, replicates
from runner.analysis.resampling import Floats, middle, repeats_interval
from runner.models.plan import ServerPlan
from runner.models.result import Check, Verdict

THROUGHPUT = "output_token_throughput"
INTERACTIVITY = "interactivity"
TTFT = "time_to_first_token"
MEAN_TTFT = "mean over requests"


class Judgement(StrEnum):
    """What a ratio and its interval say together."""

    ABOVE = "above 1"
    BELOW = "below 1"
    NO_DIFFERENCE = "no significant difference"
    NOT_KNOWN = "interval not known"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True)
class Ratio:
    """A figure of a condition over that of its baseline; `unavailable` says why there is none."""

    value: float | None
    interval: Interval | None = None
    unavailable: str | None = None

    @property
    def judgement(self) -> Judgement:
        """Above or below 1 only where the whole interval is."""
        if self.value is None:
            return Judgement.UNAVAILABLE
        if self.interval is None:
            return Judgement.NOT_KNOWN
        if self.interval.holds(1.0):
            return Judgement.NO_DIFFERENCE
        return Judgement.ABOVE if self.interval.low > 1 else Judgement.BELOW


@dataclass(frozen=True)
class LoadPair:
    """A condition and its baseline at one concurrency, every included repeat of both.

    `lengths` compares how long the answers of both sides are, over rows that both answered.
    """

    concurrency: int
    ours: tuple[MeasuredAttempt, ...]
    theirs: tuple[MeasuredAttempt, ...]
    throughput: Ratio
    interactivity: Ratio
    ttft: Ratio
    lengths: Check | None = None

    @property
    def refused(self) -> bool:
        """True when the two sides did not do the same work."""
        return self.lengths is not None and self.lengths.verdict is Verdict.REFUSE

    @property
    def paths(self) -> tuple[str, ...]:
        """Folders of the cells on both sides, the condition first."""
        return tuple(attempt.path for attempt in (*self.ours, *self.theirs))


@dataclass(frozen=True)
class Comparison:
    """One condition against its baseline on one prompt set; loads of either side by rising
    concurrency.

    `not_comparable` names what else differs; then no ratio has a value.
    """

    prompts: str
    server: ServerPlan
    baseline: ServerPlan
    loads: tuple[LoadPair, ...]
    not_comparable: str | None = None

    @property
    def name(self) -> str:
        """The condition as people call it."""
        return self.server.configuration


def compare_speed(run: MeasuredRun) -> tuple[Comparison, ...]:
    """Every condition of a sweep that has a baseline, in the order of the plan."""
    groups = _groups(run)
    refused = {
        (item.server, item.baseline_server): item.not_comparable for item in server_differences(run)
    }
    by_id = {server.id: server for server in run.plan.servers}
    found = []
    for server in run.plan.servers:
        baseline_id = run.baseline_of(server)
        if baseline_id not in by_id:
            continue
        baseline = by_id[baseline_id]
        why = refused.get((server.id, baseline_id))
        for prompts in dict.fromkeys(key[1] for key in groups if key[0] == server.id):
            sides = (server.id, baseline_id)
            measured = {key[2] for key in groups if key[0] in sides and key[1] == prompts}
            loads = tuple(
                _load(groups, server.id, baseline_id, prompts, concurrency, why)
                for concurrency in sorted(measured)
            )
            found.append(Comparison(prompts, server, baseline, loads, why))
    return tuple(found)


Groups = Mapping[tuple[str, str, int], Sequence[MeasuredAttempt]]


def _groups(run: MeasuredRun) -> Groups:
    """Attempts of sweeps by server, prompt set and concurrency."""
    groups: dict[tuple[str, str, int], list[MeasuredAttempt]] = {}
    for attempt in run.attempts:
        cell = attempt.cell
        if cell.mode != "acceptance":
            key = attempt.server.id, cell.prompts, cell.concurrency
            groups.setdefault(key, []).append(attempt)
    return groups


def _load(
    groups: Groups, server: str, baseline: str, prompts: str, concurrency: int, why: str | None
) -> LoadPair:
    ours, theirs = (groups.get((one, prompts, concurrency), ()) for one in (server, baseline))
    mine = tuple(attempt for attempt in ours if attempt.included)
    base = tuple(attempt for attempt in theirs if attempt.included)
    missing = why or _missing(ours, theirs, mine, base, server, baseline)
    if missing is not None:
        none = Ratio(None, unavailable=missing)
        return LoadPair(concurrency, mine, base, none, none, none)
    lengths = compare_lengths(mine, base)
    if lengths.verdict is Verdict.REFUSE:
        none = Ratio(None, unavailable=lengths.message)
        return LoadPair(concurrency, mine, base, none, none, none, lengths)
    both = replicates(mine), replicates(base)
    return LoadPair(
        concurrency,
        mine,
        base,
        throughput=_ratio(mine, base, _figure(THROUGHPUT), both, lambda one: one.throughput),
        interactivity=_ratio(
            mine, base, _figure(INTERACTIVITY), both, lambda one: one.interactivity
        ),
        ttft=_ratio(mine, base, _figure(TTFT, MEAN_TTFT), both, lambda one: one.ttft_ms),
        lengths=lengths,
    )


def _missing(
    ours: Sequence[MeasuredAttempt],
    theirs: Sequence[MeasuredAttempt],
    mine: Sequence[MeasuredAttempt],
    base: Sequence[MeasuredAttempt],
    server: str,
    baseline: str,
) -> str | None:
    for name, side in ((server, ours), (baseline, theirs)):
        if not side:
            return f"no cell of {name} has the same prompts and concurrency"
    for side, good in ((ours, mine), (theirs, base)):
        if not good:
            last = side[-1]
            return f"cell {last.cell.id} is {last.status}: {last.message}"
    return None


Value = Callable[[MeasuredAttempt], tuple[float | None, str | None]]


def _figure(metric: str, statistic: str | None = None) -> Value:
    def value(attempt: MeasuredAttempt) -> tuple[float | None, str | None]:
        for figure in attempt.speed:
            if figure.metric == metric and statistic in (None, figure.statistic):
                return figure.value, figure.unavailable
        return None, f"no {metric}"

    return value


def _ratio(
    mine: Sequence[MeasuredAttempt],
    base: Sequence[MeasuredAttempt],
    value: Value,
    both: tuple[Replicates | None, Replicates | None],
    column: Callable[[Replicates], Floats],
) -> Ratio:
    """Mean over repeats of the one side over that of the other."""
    for attempt in (*mine, *base):
        figure, why = value(attempt)
        if not figure:
            return Ratio(None, unavailable=f"{attempt.cell.id}: {why or 'is 0'}")
    ours, theirs = ([value(one)[0] or 0.0 for one in side] for side in (mine, base))
    point = (sum(ours) / len(ours)) / (sum(theirs) / len(theirs))
    interval = repeats_interval(ours, theirs)
    if interval is None and both[0] is not None and both[1] is not None:
        rows = min(both[0].rows, both[1].rows)
        interval = middle(column(both[0]) / column(both[1]), f"bootstrap over {rows:,} rows")
    return Ratio(point, interval)


def counted(comparisons: Iterable[Comparison]) -> Mapping[Judgement, int]:
    """How many throughput ratios fall under each judgement; those below 1 are never hidden."""
    counts = dict.fromkeys(Judgement, 0)
    for comparison in comparisons:
        for load in comparison.loads:
            counts[load.throughput.judgement] += 1
    return counts

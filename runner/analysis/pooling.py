"""Cells put together: acceptance per server configuration and prompt set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from runner.analysis.acceptance import Acceptance, AcceptancePool
from runner.analysis.counters import CounterPool
from runner.analysis.measured import MeasuredAttempt
from runner.analysis.measurements import Measurement, acceptance_measurements
from runner.analysis.resampling import acceptance_sums, ratio_interval
from runner.analysis.spread import Spread, spread_of
from runner.models.plan import ServerPlan


@dataclass(frozen=True)
class PooledAcceptance:
    """Acceptance of one configuration on one prompt set, over concurrencies and repeats.

    `from_counters` where the server's answers carry none; sources are never mixed. `category` is
    set where only the rows of one category are pooled.
    """

    configuration: str
    server: ServerPlan
    prompts: str
    attempts: tuple[MeasuredAttempt, ...]
    acceptance: Acceptance
    measurements: tuple[Measurement, ...]
    from_counters: bool = False
    category: str | None = None

    @property
    def spread(self) -> Spread | None:
        """Acceptance length of single requests; None where they carry no figures."""
        rows = {row.id for one in self.attempts for row in one.cell.rows
                if self.category in (None, row.category)}  # fmt: skip
        return spread_of((one.requests for one in self.attempts), rows)

    @property
    def paths(self) -> tuple[str, ...]:
        """Folders of the cells that were pooled, relative to the run."""
        return tuple(attempt.path for attempt in self.attempts)


def pool_acceptance(attempts: Iterable[MeasuredAttempt]) -> tuple[PooledAcceptance, ...]:
    """Pools of the included attempts of speculative servers, in the order of the plan."""
    groups: dict[tuple[str, str, bool], list[MeasuredAttempt]] = {}
    for attempt in attempts:
        if attempt.included and attempt.server.speculative is not None:
            from_counters = attempt.counted is not None
            key = attempt.server.configuration, attempt.cell.prompts, from_counters
            groups.setdefault(key, []).append(attempt)
    return tuple(_pool(key, members) for key, members in groups.items())


def _pool(key: tuple[str, str, bool], members: list[MeasuredAttempt]) -> PooledAcceptance:
    configuration, prompts, from_counters = key
    pool, counters = AcceptancePool(), CounterPool()
    for member in members:
        pool.merge(member.pool)
        if member.counted is not None:
            counters.merge(member.counted)
    acceptance = counters.acceptance(pool) if from_counters else pool.acceptance()
    measured = acceptance_measurements(acceptance, from_counters=from_counters)
    return PooledAcceptance(
        configuration=configuration,
        server=members[0].server,
        prompts=prompts,
        attempts=tuple(members),
        acceptance=acceptance,
        measurements=measured if from_counters else with_intervals(measured, members),
        from_counters=from_counters,
    )


def pool_categories(attempts: Iterable[MeasuredAttempt]) -> tuple[PooledAcceptance, ...]:
    """Pools by category of the rows, where a prompt set has more than one; from request records
    alone, as counters know no rows."""
    groups: dict[tuple[str, str], list[MeasuredAttempt]] = {}
    for attempt in attempts:
        speculative = attempt.included and attempt.server.speculative is not None
        named = {row.category for row in attempt.cell.rows if row.category is not None}
        if speculative and attempt.counted is None and len(named) > 1:
            key = attempt.server.configuration, attempt.cell.prompts
            groups.setdefault(key, []).append(attempt)
    return tuple(
        _category(key, members, category)
        for key, members in groups.items()
        for category in sorted({name for member in members for name in member.categories})
    )


def _category(
    key: tuple[str, str], members: Sequence[MeasuredAttempt], category: str
) -> PooledAcceptance:
    pool = AcceptancePool()
    for member in members:
        if category in member.categories:
            pool.merge(member.categories[category])
    acceptance = pool.acceptance()
    return PooledAcceptance(
        configuration=key[0],
        server=members[0].server,
        prompts=key[1],
        attempts=tuple(members),
        acceptance=acceptance,
        measurements=with_intervals(acceptance_measurements(acceptance), members, category),
        category=category,
    )


def with_intervals(
    figures: Iterable[Measurement],
    members: Iterable[MeasuredAttempt],
    category: str | None = None,
) -> tuple[Measurement, ...]:
    """Acceptance length and rate with their intervals over rows."""
    sums = acceptance_sums(
        (
            member.requests,
            [row.id for row in member.cell.rows if category in (None, row.category)],
        )
        for member in members
    )
    intervals = {
        "acceptance_length": ratio_interval(sums, numerator=1, denominator=0),
        "draft_acceptance_rate": ratio_interval(sums, numerator=2, denominator=3),
    }
    return tuple(
        replace(figure, interval=intervals.get(figure.metric)) if figure.value is not None
        else figure
        for figure in figures
    )  # fmt: skip

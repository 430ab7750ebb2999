"""Cells put together: acceptance per server configuration and prompt set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runner.analysis.acceptance import Acceptance, AcceptancePool
from runner.analysis.counters import CounterPool
from runner.analysis.measured import MeasuredAttempt
from runner.analysis.measurements import Measurement, acceptance_measurements
from runner.models.plan import ServerPlan


@dataclass(frozen=True)
class PooledAcceptance:
    """Acceptance of one configuration on one prompt set, over concurrencies and repeats.

    `from_counters` where the server's answers carry none; sources are never mixed.
    """

    configuration: str
    server: ServerPlan
    prompts: str
    attempts: tuple[MeasuredAttempt, ...]
    acceptance: Acceptance
    measurements: tuple[Measurement, ...]
    from_counters: bool = False

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
    return PooledAcceptance(
        configuration=configuration,
        server=members[0].server,
        prompts=prompts,
        attempts=tuple(members),
        acceptance=acceptance,
        measurements=acceptance_measurements(acceptance, from_counters=from_counters),
        from_counters=from_counters,
    )

"""Acceptance from a server's own counters, where its answers carry none."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from runner.analysis.acceptance import Acceptance, AcceptancePool, conditional_rates
from runner.analysis.prometheus import (
    ACCEPTED_PER_POSITION,
    ACCEPTED_TOKENS,
    DRAFT_TOKENS,
    DRAFTS,
    Known,
    counter_delta,
    parse_metrics,
)


@dataclass
class CounterPool:
    """Growth of the speculative counters over cells; merge pools in any order.

    `drafts` are request-steps that had a draft, summed over engines.
    """

    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    positions: Counter[int] = field(default_factory=Counter)

    def merge(self, other: CounterPool) -> None:
        """Take in what another pool holds."""
        self.drafts += other.drafts
        self.drafted += other.drafted
        self.accepted += other.accepted
        for position, count in other.positions.items():
            self.positions[position] += count

    def acceptance(self, records: AcceptancePool) -> Acceptance:
        """length = 1 + accepted / drafts, rate = accepted / drafted, positions = accepted at that
        position / drafts.

        How many steps had no draft is not counted, so coverage and tokens per step are unknown.

        Args:
            records: of the same cells, for the counts of requests.
        """
        reached = tuple(self.positions[position] for position in sorted(self.positions))
        return Acceptance(
            requests=records.requests,
            errors=records.errors,
            missing=records.missing,
            steps=self.drafts,
            accepted=self.accepted,
            drafted=self.drafted,
            k=len(reached) or None,
            length=(self.drafts + self.accepted) / self.drafts if self.drafts else None,
            rate=self.accepted / self.drafted if self.drafted else None,
            positions=tuple(count / self.drafts for count in reached) if self.drafts else (),
            conditional=conditional_rates(self.drafts, reached),
            coverage=None,
            tokens_per_step=None,
        )


def counted(before: str, after: str) -> CounterPool | None:
    """What the speculative counters grew by between two scrapes; None where that can't be told.

    Raises:
        ArtifactError: a scrape is not in the Prometheus format.
    """
    old, new = parse_metrics(before), parse_metrics(after)
    deltas = {
        name: counter_delta(old, new, name)
        for name in (DRAFTS, DRAFT_TOKENS, ACCEPTED_TOKENS, ACCEPTED_PER_POSITION)
    }
    if any(delta.state is not Known.KNOWN for delta in deltas.values()):
        return None
    positions = deltas[ACCEPTED_PER_POSITION].by("position")
    return CounterPool(
        drafts=round(deltas[DRAFTS].value or 0),
        drafted=round(deltas[DRAFT_TOKENS].value or 0),
        accepted=round(deltas[ACCEPTED_TOKENS].value or 0),
        positions=Counter({int(name): round(value) for name, value in positions.items()}),
    )

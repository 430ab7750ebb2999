"""What a plan will take: counts always, hours only where earlier runs tell the pace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner.models.plan import Estimate, PlannedRow

NO_PACE = "no earlier run of this model on this host is in the store"


@dataclass(frozen=True)
class Pace:
    """How fast earlier runs went.

    Args:
        source: which runs, in words.
        server_ready_s: seconds from a server's start until it is ready.
        cell_overhead_s: seconds that a cell takes beside its requests.
        tokens_per_s: concurrency -> output tokens a second.
    """

    source: str
    server_ready_s: float
    cell_overhead_s: float
    tokens_per_s: Mapping[int, float]

    def rate(self, concurrency: int) -> float:
        """Output tokens a second at the nearest concurrency that is not above, else the least."""
        below = [known for known in self.tokens_per_s if known <= concurrency]
        return self.tokens_per_s[max(below) if below else min(self.tokens_per_s)]


@dataclass(frozen=True)
class CellLoad:
    """What one cell asks for. `output_tokens` is the cap of each answer."""

    rows: Sequence[PlannedRow]
    concurrency: int
    output_tokens: int
    duration_s: float | None = None

    @property
    def requests(self) -> int:
        """Turns of all rows."""
        return sum(row.turns for row in self.rows)


def estimate(servers: int, cells: Sequence[CellLoad], pace: Pace | None) -> Estimate:
    """Counts and bounds of a plan.

    hours = (servers x ready + sum over cells of (overhead + requests x cap / rate)) / 3600, a cell
    with a duration taking no longer than that.
    """
    hours = None
    if pace is not None and pace.tokens_per_s:
        seconds = servers * pace.server_ready_s
        for cell in cells:
            measured = cell.requests * cell.output_tokens / pace.rate(cell.concurrency)
            if cell.duration_s is not None:
                measured = min(measured, cell.duration_s)
            seconds += pace.cell_overhead_s + measured
        hours = seconds / 3600
    return Estimate(
        servers=servers,
        cells=len(cells),
        requests=sum(cell.requests for cell in cells),
        output_tokens=sum(cell.requests * cell.output_tokens for cell in cells),
        prompt_tokens=_prompt_tokens(cells),
        hours=hours,
        hours_source=NO_PACE if pace is None or hours is None else f"the pace of {pace.source}",
    )


def _prompt_tokens(cells: Sequence[CellLoad]) -> int | None:
    """A bound on the tokens of all prompts; None unless every row was counted.

    A row's count is that of its longest prompt with empty answers, so turn i of it (from 0) has at
    most that, and i answers of the model before it.
    """
    total = 0
    for cell in cells:
        for row in cell.rows:
            if row.prompt_tokens is None:
                return None
            answers = row.turns * (row.turns - 1) // 2
            total += row.turns * row.prompt_tokens + answers * cell.output_tokens
    return total

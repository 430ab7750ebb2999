"""One pass over a cell's records: everything that the checks ask about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from runner.analysis.acceptance import AcceptancePool
from runner.analysis.records import FILE_NAME, Outcome, RequestRecord, read_records
from runner.models.result import RequestCounts

RowKey = tuple[str, int]


@dataclass
class RecordTally:
    """Counts over measured requests; `seen` counts how often each (id, turn) was recorded.

    `output_tokens`, `latency_ms` (sums) and the window are those of the good requests.
    """

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    error_kinds: Counter[str] = field(default_factory=Counter)
    seen: Counter[RowKey] = field(default_factory=Counter)
    acceptance: AcceptancePool = field(default_factory=AcceptancePool)
    output_tokens: int = 0
    latency_ms: float = 0.0
    first_start_ns: int | None = None
    last_end_ns: int = 0
    longest_output_tokens: int = 0
    above_cap: int = 0
    below_cap: int = 0
    torn_lines: int = 0
    warmup_records: int = 0

    @property
    def recorded(self) -> int:
        """Requests that have a record, whatever their outcome."""
        return self.outcomes.total()

    @property
    def mean_in_flight(self) -> float | None:
        """Good requests under way on average; None where no request tells its times."""
        if self.first_start_ns is None or self.last_end_ns <= self.first_start_ns:
            return None
        return self.latency_ms * 1e6 / (self.last_end_ns - self.first_start_ns)

    def add(self, record: RequestRecord, output_cap: int) -> None:
        """Take one request in; `output_cap` is the most tokens that it may have."""
        self.outcomes[record.outcome] += 1
        self.seen[record.id, record.turn] += 1
        self.acceptance.add(record)
        if record.outcome is Outcome.GOOD:
            self._add_good(record)
            self.below_cap += (record.output_tokens or 0) < output_cap
        if record.error is not None and record.outcome is Outcome.ERROR:
            self.error_kinds[record.error.kind] += 1
        tokens = record.output_tokens or 0
        self.longest_output_tokens = max(self.longest_output_tokens, tokens)
        self.above_cap += tokens > output_cap

    def _add_good(self, record: RequestRecord) -> None:
        self.output_tokens += record.output_tokens or 0
        self.latency_ms += record.latency_ms or 0.0
        first = self.first_start_ns
        self.first_start_ns = record.start_ns if first is None else min(first, record.start_ns)
        self.last_end_ns = max(self.last_end_ns, record.end_ns)

    def counts(self, planned: int) -> RequestCounts:
        """The counts that stand beside every number of the cell."""
        return RequestCounts(
            planned=planned,
            recorded=self.recorded,
            good=self.outcomes[Outcome.GOOD],
            errors=self.outcomes[Outcome.ERROR],
            cancelled=self.outcomes[Outcome.CANCELLED],
            empty=self.outcomes[Outcome.EMPTY],
            torn_lines=self.torn_lines,
        )


def tally_records(records: Iterable[RequestRecord], output_cap: int) -> RecordTally:
    """Tally of these records."""
    result = RecordTally()
    for record in records:
        result.add(record, output_cap)
    return result


def tally_exports(exports: Path, output_cap: int, aiperf_version: str | None = None) -> RecordTally:
    """Tally of the records in this export folder; an empty one when AIPerf left no records.

    `aiperf_version` tells how a record is laid out; the newest layout is read without one.

    Raises:
        ArtifactError: the records are there and can't be read.
    """
    path = exports / FILE_NAME
    if not path.exists():
        return RecordTally()
    reader = read_records(path, aiperf_version)
    result = tally_records(reader, output_cap)
    result.torn_lines, result.warmup_records = reader.torn_lines, reader.warmup_records
    return result

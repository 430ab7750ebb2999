"""The good requests of a cell, column by column: what resampling and validity rules look at."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isnan, nan

from runner.analysis.records import Outcome, RequestRecord

ABSENT = -1
"""In columns of whole numbers: the record does not tell."""


def _whole() -> array[int]:
    return array("i")


def _nanoseconds() -> array[int]:
    return array("q")


def _milliseconds() -> array[float]:
    return array("d")


@dataclass
class RequestColumns:
    """Columns of equal length, one place for each good request in the order of the file.

    `row` numbers conversations in `row_ids`. Times of day are in ns since the epoch, durations in
    ms (NaN where not recorded). `steps`, `accepted`, `drafted`, `gaps` (between streamed pieces)
    and `reads` (of the socket) are `ABSENT` where not recorded. 74 bytes a request and its id.
    """

    row: array[int] = field(default_factory=_whole)
    turn: array[int] = field(default_factory=_whole)
    start_ns: array[int] = field(default_factory=_nanoseconds)
    end_ns: array[int] = field(default_factory=_nanoseconds)
    waited_ms: array[float] = field(default_factory=lambda: array("f"))
    """From the moment at which the load was to send the request to the one at which it did."""
    latency_ms: array[float] = field(default_factory=_milliseconds)
    ttft_ms: array[float] = field(default_factory=_milliseconds)
    output_tokens: array[int] = field(default_factory=_whole)
    input_tokens: array[int] = field(default_factory=_whole)
    steps: array[int] = field(default_factory=_whole)
    accepted: array[int] = field(default_factory=_whole)
    drafted: array[int] = field(default_factory=_whole)
    gaps: array[int] = field(default_factory=_whole)
    reads: array[int] = field(default_factory=_whole)
    row_ids: list[str] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.row)

    def add(self, record: RequestRecord) -> None:
        """Take one request in; only good ones have a place."""
        if record.outcome is not Outcome.GOOD:
            return
        number = self._numbers.setdefault(record.id, len(self.row_ids))
        if number == len(self.row_ids):
            self.row_ids.append(record.id)
        spec = record.spec
        self.row.append(number)
        self.turn.append(record.turn)
        self.start_ns.append(record.start_ns)
        self.end_ns.append(record.end_ns)
        self.waited_ms.append(
            nan if record.credit_ns is None else (record.start_ns - record.credit_ns) / 1e6
        )
        self.latency_ms.append(nan if record.latency_ms is None else record.latency_ms)
        self.ttft_ms.append(nan if record.ttft_ms is None else record.ttft_ms)
        self.output_tokens.append(record.output_tokens or 0)
        self.input_tokens.append(ABSENT if record.input_tokens is None else record.input_tokens)
        self.steps.append(ABSENT if spec is None else spec.steps)
        self.accepted.append(ABSENT if spec is None else spec.accepted)
        self.drafted.append(ABSENT if spec is None else spec.drafted)
        self.gaps.append(ABSENT if record.stream_gaps is None else record.stream_gaps)
        self.reads.append(ABSENT if record.chunks is None else record.chunks)

    def itl_ms(self, index: int) -> float | None:
        """(latency - TTFT) / (output tokens - 1) of one request; None where it has none."""
        tokens = self.output_tokens[index]
        value = self.latency_ms[index] - self.ttft_ms[index]
        return None if tokens < 2 or isnan(value) else value / (tokens - 1)

    def by_row(self) -> Mapping[str, list[int]]:
        """Places of each conversation."""
        places: dict[str, list[int]] = {}
        for place, number in enumerate(self.row):
            places.setdefault(self.row_ids[number], []).append(place)
        return places

"""The good requests of a cell, column by column: what resampling and validity rules look at."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from math import nan

from runner.analysis.records import RequestRecord

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

    `ids` are the conversations' ids as UTF-8, each with a line feed behind it; `row` numbers them
    in `row_ids`. Times of day are in ns since the epoch, durations in ms (NaN where not recorded).
    `steps`, `accepted`, `drafted`, `gaps` (between streamed pieces) and `reads` (of the socket) are
    `ABSENT` where not recorded. 70 bytes a request and its id.
    """

    ids: bytearray = field(default_factory=bytearray)
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
    _rows: tuple[int, array[int], list[str]] | None = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.turn)

    @property
    def row(self) -> array[int]:
        """The number of each request's conversation in `row_ids`."""
        return self._numbered()[1]

    @property
    def row_ids(self) -> list[str]:
        """Ids of the conversations in the order in which they first occur."""
        return self._numbered()[2]

    def _numbered(self) -> tuple[int, array[int], list[str]]:
        """Conversations with their numbers, worked out when first asked for: most readers never
        ask, and a million ids take more room than all columns."""
        if self._rows is None or self._rows[0] != len(self.ids):
            names = self.ids.decode("utf-8", "surrogatepass").split("\n")[:-1]
            numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
            rows = array("i", map(numbers.__getitem__, names))
            self._rows = len(self.ids), rows, list(numbers)
        return self._rows

    def add(self, record: RequestRecord) -> None:
        """Take one request in; only good ones have a place."""
        if record.good:
            self.add_good((record,))

    def add_good(self, records: Sequence[RequestRecord]) -> None:
        """Take in requests that are known to be good; many at a time cost least."""
        specs = [record.spec for record in records]
        text = "\n".join([one.id for one in records])
        if text.count("\n") >= len(records):
            text = "\n".join([one.id.replace("\n", " ") for one in records])
        self.ids += f"{text}\n".encode("utf-8", "surrogatepass") if records else b""
        self.turn.extend([one.turn for one in records])
        self.start_ns.extend([one.start_ns for one in records])
        self.end_ns.extend([one.end_ns for one in records])
        self.waited_ms.extend(
            [
                nan if one.credit_ns is None else (one.start_ns - one.credit_ns) / 1e6
                for one in records
            ]
        )
        self.latency_ms.extend(_or_nan([one.latency_ms for one in records]))
        self.ttft_ms.extend(_or_nan([one.ttft_ms for one in records]))
        self.output_tokens.extend([one.output_tokens or 0 for one in records])
        self.input_tokens.extend(_or_absent([one.input_tokens for one in records]))
        self.steps.extend([ABSENT if one is None else one.steps for one in specs])
        self.accepted.extend([ABSENT if one is None else one.accepted for one in specs])
        self.drafted.extend([ABSENT if one is None else one.drafted for one in specs])
        self.gaps.extend(_or_absent([one.stream_gaps for one in records]))
        self.reads.extend(_or_absent([one.chunks for one in records]))

    def merge(self, other: RequestColumns) -> None:
        """Take in what other columns hold, behind what these hold."""
        for name in _COLUMNS:
            getattr(self, name).extend(getattr(other, name))


def _or_nan(values: list[float | None]) -> list[float]:
    return [nan if value is None else value for value in values]


def _or_absent(values: list[int | None]) -> list[int]:
    return [ABSENT if value is None else value for value in values]


_COLUMNS = tuple(column.name for column in fields(RequestColumns) if column.name != "_rows")

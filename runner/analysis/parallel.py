"""Everything that a cell's records add up to, read by several processes where the file is large.

Only the standard library and msgspec are needed here, so that a worker starts quickly.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from runner.analysis.acceptance import AcceptancePool
from runner.analysis.layouts.catalogue import layout_for
from runner.analysis.records import RecordReader, read_records
from runner.analysis.requests import RequestColumns
from runner.errors import ArtifactError

SPLIT_ABOVE_BYTES = 64 << 20
"""A file up to this size is read by the calling process: starting others takes longer."""
PART_BYTES = 32 << 20
"""About what a worker reads before it reports: bounds the memory of all processes."""
MOST_WORKERS = 4
BATCH = 128
"""Records that are taken in together."""


class MeasuredRecords(NamedTuple):
    """What the measured requests of one export add up to.

    `columns` has the good requests in the order of the file. The counts are those of
    `RecordReader`.
    """

    acceptance: AcceptancePool
    columns: RequestColumns
    torn_lines: int
    warmup_records: int


@dataclass
class _Sums:
    acceptance: AcceptancePool = field(default_factory=AcceptancePool)
    columns: RequestColumns = field(default_factory=RequestColumns)
    torn_lines: int = 0
    warmup_records: int = 0

    def read(self, reader: RecordReader) -> None:
        records = iter(reader)
        while batch := list(islice(records, BATCH)):
            good = [record for record in batch if record.good]
            self.acceptance.add_good(good)
            self.columns.add_good(good)
            if len(good) < len(batch):
                for record in batch:
                    if not record.good:
                        self.acceptance.add(record)
        self.torn_lines += reader.torn_lines
        self.warmup_records += reader.warmup_records

    def merge(self, other: MeasuredRecords) -> None:
        self.acceptance.merge(other.acceptance)
        self.columns.merge(other.columns)
        self.torn_lines += other.torn_lines
        self.warmup_records += other.warmup_records

    def measured(self) -> MeasuredRecords:
        return MeasuredRecords(self.acceptance, self.columns, self.torn_lines, self.warmup_records)


def measure_records(
    path: Path, aiperf_version: str | None = None, *, workers: int | None = None
) -> MeasuredRecords:
    """Acceptance and columns of this `profile_export.jsonl`, in one pass.

    However many processes read it, the result is the same. `workers` is their largest number
    (one for each CPU that this process may use unless given, and no more than `MOST_WORKERS`);
    with one, or a file of up to `SPLIT_ABOVE_BYTES`, the calling process reads alone.

    Raises:
        ArtifactError: the file can't be read, or this version is older than every layout.
    """
    reader = read_records(path, aiperf_version)
    count = min(workers or usable_cpus(), MOST_WORKERS)
    if count == 1 or _size(path) <= SPLIT_ABOVE_BYTES:
        sums = _Sums()
        sums.read(reader)
        return sums.measured()
    return merged(_read_parts(path, aiperf_version, count))


def measure_part(path: Path, aiperf_version: str | None, part: tuple[int, int]) -> MeasuredRecords:
    """What the lines in this part of the file add up to; both its ends are starts of lines."""
    sums = _Sums()
    sums.read(RecordReader(path, layout=layout_for(aiperf_version), part=part))
    return sums.measured()


def merged(parts: Iterable[MeasuredRecords]) -> MeasuredRecords:
    """One result of those of consecutive parts of a file, given in the order of the file."""
    sums = _Sums()
    for part in parts:
        sums.merge(part)
    return sums.measured()


def line_parts(path: Path, part_bytes: int) -> Iterator[tuple[int, int]]:
    """First byte and the one after the last of consecutive parts of the file.

    Each holds whole lines, at least one, and at least `part_bytes` but for the last.
    """
    size = _size(path)
    with path.open("rb") as file:
        first = 0
        while first < size:
            file.seek(min(first + part_bytes, size) - 1)
            file.readline()
            end = file.tell()
            yield first, end
            first = end


def _read_parts(path: Path, aiperf_version: str | None, workers: int) -> Iterator[MeasuredRecords]:
    # spawned, not forked: the caller may have threads (numpy starts some)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as executor:
        parts = list(line_parts(path, PART_BYTES))
        count = len(parts)
        try:
            # arrays are pickled as the bytes that they hold
            yield from executor.map(measure_part, [path] * count, [aiperf_version] * count, parts)
        except BrokenProcessPool as error:
            raise ArtifactError(
                "a process that read the request records was killed",
                where=str(path),
                next_step="see whether the machine ran out of memory, then try again",
            ) from error


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise ArtifactError(
            f"can't read the request records: {error.strerror}",
            where=str(path),
            next_step="runner artifacts verify RUN",
        ) from error


def usable_cpus() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""AIPerf's `profile_export.jsonl`, one typed record per request, streamed in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from sys import maxsize
from typing import Any

import msgspec

from runner.analysis.layouts.catalogue import Layout, layout_for
from runner.analysis.layouts.wire import wire_of
from runner.errors import ArtifactError

FILE_NAME = "profile_export.jsonl"
BLOCK_BYTES = 1 << 18
_OPENING = ord("[")


class Outcome(StrEnum):
    """How a request ended. Only `good` enters a measurement."""

    GOOD = "good"
    ERROR = "error"
    CANCELLED = "cancelled"
    EMPTY = "empty"


class ErrorRecord(msgspec.Struct, frozen=True, gc=False):
    """Why a request failed, as AIPerf wrote it."""

    code: int | str | None = None
    type: str | None = None
    message: str | None = None

    @property
    def kind(self) -> str:
        """Code and type, without the message that differs per request."""
        words = [str(part) for part in (self.code, self.type) if part is not None]
        return " ".join(words) or "unknown error"


class SpecRecord(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "steps": "num_spec_steps",
        "accepted": "num_accepted_draft_tokens",
        "drafted": "num_draft_tokens",
        "histogram": "acceptance_histogram",
    },
):
    """Speculation of one request.

    `steps` are verify steps with at least one draft; `histogram[j]` of them accepted j drafts.
    The per-step lists exist only where the server was asked for details, and stay JSON text: of
    hundreds of numbers only the last one is ever looked at.
    """

    steps: int
    accepted: int
    drafted: int
    num_spec_tokens: int | None = None
    histogram: dict[int, int] = {}
    completion_tokens: int | None = None
    per_step_accepted: msgspec.Raw = msgspec.Raw(b"")
    per_step_drafted: msgspec.Raw = msgspec.Raw(b"")

    @property
    def accepted_last(self) -> int | None:
        """Drafts accepted in the last drafted step; None where the server gave no list."""
        text = bytes(self.per_step_accepted)
        if text[:1] != b"[":
            return None
        # behind the last comma, or behind the bracket
        last = text[(text.rfind(b",") + 1) or 1 : -1].strip()
        return int(last) if last else 0


class RequestRecord(msgspec.Struct, frozen=True, gc=False):
    """One measured request; `id` and `turn` are its identity in the plan.

    `chunks` are socket reads of the response, `stream_gaps` the gaps between streamed pieces:
    one per decode step of an undisturbed stream. `credit_ns` is when the load was to send it.
    """

    id: str
    turn: int
    start_ns: int
    end_ns: int
    latency_ms: float | None
    ttft_ms: float | None
    output_tokens: int | None
    input_tokens: int | None
    chunks: int | None
    stream_gaps: int | None
    error: ErrorRecord | None
    was_cancelled: bool
    spec: SpecRecord | None
    credit_ns: int | None = None

    @property
    def itl_ms(self) -> float | None:
        """(latency - TTFT) / (output tokens - 1); None with fewer than two tokens."""
        tokens, latency, ttft = self.output_tokens, self.latency_ms, self.ttft_ms
        if latency is None or ttft is None or tokens is None or tokens < 2:
            return None
        return (latency - ttft) / (tokens - 1)

    @property
    def good(self) -> bool:
        """Whether `outcome` is good, asked in the cheapest way."""
        return bool(self.output_tokens) and self.error is None and not self.was_cancelled

    @property
    def outcome(self) -> Outcome:
        """Cancelled and failed requests are told apart; no output tokens is no answer."""
        if self.was_cancelled:
            return Outcome.CANCELLED
        if self.error is not None:
            return Outcome.ERROR
        return Outcome.GOOD if self.output_tokens else Outcome.EMPTY


class RecordReader:
    """Iterable over the measured requests of one export; each pass starts anew.

    After a pass `torn_lines` counts lines that are no whole record (a writer was killed in the
    middle of one) and `warmup_records` those of another phase; neither is yielded.

    Args:
        layout: where a record holds what; the newest one unless given.
        part: first byte and the one after the last, both at starts of lines; the whole file
            unless given.

    Raises:
        ArtifactError: on iteration, when the file can't be read.
    """

    def __init__(
        self,
        path: Path,
        *,
        layout: Layout | None = None,
        block_bytes: int = BLOCK_BYTES,
        part: tuple[int, int] | None = None,
    ):
        self.path = path
        self.torn_lines = 0
        self.warmup_records = 0
        self._wire = wire_of(layout or layout_for(None), SpecRecord, ErrorRecord)
        self._block_bytes = block_bytes
        self._part = part

    def __iter__(self) -> Iterator[RequestRecord]:
        self.torn_lines = self.warmup_records = 0
        wire = self._wire
        decode, factors = wire.decode, wire.factors
        metadata_names, metrics_names = wire.metadata_names, wire.metrics_names
        for line in _lines(self.path, self._block_bytes, self._part):
            try:
                decoded = decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                self.torn_lines += 1
                continue
            metadata, metrics = decoded.metadata, decoded.metrics
            if metrics_names is not None and None in metrics_names.firsts(metrics):
                metrics_names.settle(metrics)
            if metadata_names is not None and None in metadata_names.firsts(metadata):
                metadata_names.settle(metadata)
            if metadata.phase != wire.measured_phase and metadata.phase is not None:
                self.warmup_records += 1
            elif metadata.id is None:
                self.torn_lines += 1
            elif factors:
                yield _in_own_units(_record(decoded), factors)
            else:
                yield _record(decoded)


def read_records(path: Path, aiperf_version: str | None = None) -> RecordReader:
    """The requests in this `profile_export.jsonl`, read as they are iterated.

    `aiperf_version` is that of the AIPerf that wrote it; without one, or with one that is newer
    than every layout, the newest layout is read.

    Raises:
        ArtifactError: this version is older than every layout.
    """
    try:
        return RecordReader(path, layout=layout_for(aiperf_version))
    except ArtifactError as error:
        error.where = str(path)
        raise


def _lines(path: Path, block_bytes: int, part: tuple[int, int] | None) -> Iterator[bytes]:
    try:
        with path.open("rb", buffering=block_bytes) as file:
            first, end = part or (0, maxsize)
            file.seek(first)
            left = end - first
            for line in file:
                if left <= 0:
                    return
                left -= len(line)
                if line != b"\n":
                    yield line
    except OSError as error:
        raise ArtifactError(
            f"can't read the request records: {error.strerror}",
            where=str(path),
            next_step="runner artifacts verify RUN",
        ) from error


def _record(line: Any) -> RequestRecord:
    # runs once per record: values are looked at in place, without a call for each
    metadata, metrics = line.metadata, line.metrics
    latency, ttft = metrics.latency_ms, metrics.ttft_ms
    output, given = metrics.output_tokens, metrics.input_tokens
    chunks, gaps = metrics.chunks, metrics.stream_gaps
    return RequestRecord(
        metadata.id,
        metadata.turn or 0,
        metadata.start_ns or 0,
        metadata.end_ns or 0,
        None if latency is None else latency.value,
        None if ttft is None else ttft.value,
        None if output is None or output.value is None else int(output.value),
        None if given is None or given.value is None else int(given.value),
        None if chunks is None or chunks.value is None else int(chunks.value),
        None if gaps is None else _length(bytes(gaps.value)),
        line.error,
        metadata.was_cancelled or False,
        line.spec,
        metadata.credit_ns,
    )


def _in_own_units(record: RequestRecord, factors: Mapping[str, float]) -> RequestRecord:
    changed = {}
    for field, factor in factors.items():
        value = getattr(record, field)
        if value is not None:
            changed[field] = round(value * factor) if field.endswith("_ns") else value * factor
    return msgspec.structs.replace(record, **changed)


def _length(text: bytes) -> int | None:
    """Entries of a JSON list of numbers; None for anything else."""
    # counting separators is much cheaper than decoding numbers that nobody reads
    separators = text.count(b",")
    if separators and text[0] == _OPENING:
        return separators + 1
    text = text.strip()
    if not text.startswith(b"["):
        return None
    return separators + 1 if text[1:-1].strip() else 0

"""AIPerf's `profile_export.jsonl`, one typed record per request, streamed in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import msgspec

from runner.errors import ArtifactError

FILE_NAME = "profile_export.jsonl"
BLOCK_BYTES = 1 << 20
MEASURED_PHASE = "profiling"


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
    The per-step lists exist only where the server was asked for details.
    """

    steps: int
    accepted: int
    drafted: int
    num_spec_tokens: int | None = None
    histogram: dict[int, int] = {}
    completion_tokens: int | None = None
    per_step_accepted: tuple[int, ...] | None = None
    per_step_drafted: tuple[int, ...] | None = None


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
        if self.latency_ms is None or self.ttft_ms is None or (self.output_tokens or 0) < 2:
            return None
        return (self.latency_ms - self.ttft_ms) / ((self.output_tokens or 0) - 1)

    @property
    def outcome(self) -> Outcome:
        """Cancelled and failed requests are told apart; no output tokens is no answer."""
        if self.was_cancelled:
            return Outcome.CANCELLED
        if self.error is not None:
            return Outcome.ERROR
        return Outcome.GOOD if self.output_tokens else Outcome.EMPTY


class _Number(msgspec.Struct, gc=False):
    value: float | None = None


class _List(msgspec.Struct, gc=False):
    value: msgspec.Raw = msgspec.Raw(b"")


class _Metrics(msgspec.Struct, gc=False):
    request_latency: _Number | None = None
    time_to_first_token: _Number | None = None
    usage_completion_tokens: _Number | None = None
    usage_prompt_tokens: _Number | None = None
    output_sequence_length: _Number | None = None
    input_sequence_length: _Number | None = None
    http_req_chunks_received: _Number | None = None
    inter_chunk_latency: _List | None = None


class _Metadata(msgspec.Struct, gc=False):
    conversation_id: str
    turn_index: int = 0
    request_start_ns: int = 0
    request_end_ns: int = 0
    credit_issued_ns: int | None = None
    benchmark_phase: str = MEASURED_PHASE
    was_cancelled: bool = False


class _Line(msgspec.Struct, gc=False):
    metadata: _Metadata
    metrics: _Metrics
    spec_decode_acceptance: SpecRecord | None = None
    error: ErrorRecord | None = None


class RecordReader:
    """Iterable over the measured requests of one export; each pass starts anew.

    After a pass `torn_lines` counts lines that are no whole record (a writer was killed in the
    middle of one) and `warmup_records` those of another phase; neither is yielded.

    Raises:
        ArtifactError: on iteration, when the file can't be read.
    """

    def __init__(self, path: Path, *, block_bytes: int = BLOCK_BYTES):
        self.path = path
        self.torn_lines = 0
        self.warmup_records = 0
        self._block_bytes = block_bytes

    def __iter__(self) -> Iterator[RequestRecord]:
        self.torn_lines = self.warmup_records = 0
        decode = msgspec.json.Decoder(_Line).decode
        for line in _lines(self.path, self._block_bytes):
            try:
                decoded = decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                self.torn_lines += 1
                continue
            if decoded.metadata.benchmark_phase != MEASURED_PHASE:
                self.warmup_records += 1
                continue
            yield _record(decoded)


def read_records(path: Path) -> RecordReader:
    """The requests in this `profile_export.jsonl`, read as they are iterated."""
    return RecordReader(path)


def _lines(path: Path, block_bytes: int) -> Iterator[bytes]:
    try:
        with path.open("rb", buffering=block_bytes) as file:
            for line in file:
                if line != b"\n":
                    yield line
    except OSError as error:
        raise ArtifactError(
            f"can't read the request records: {error.strerror}",
            where=str(path),
            next_step="runner artifacts verify RUN",
        ) from error


def _record(line: _Line) -> RequestRecord:
    metadata, metrics = line.metadata, line.metrics
    return RequestRecord(
        metadata.conversation_id,
        metadata.turn_index,
        metadata.request_start_ns,
        metadata.request_end_ns,
        _float(metrics.request_latency),
        _float(metrics.time_to_first_token),
        _int(metrics.usage_completion_tokens or metrics.output_sequence_length),
        _int(metrics.usage_prompt_tokens or metrics.input_sequence_length),
        _int(metrics.http_req_chunks_received),
        _length(metrics.inter_chunk_latency),
        line.error,
        metadata.was_cancelled,
        line.spec_decode_acceptance,
        metadata.credit_issued_ns,
    )


def _float(number: _Number | None) -> float | None:
    return None if number is None else number.value


def _int(number: _Number | None) -> int | None:
    return None if number is None or number.value is None else int(number.value)


def _length(values: _List | None) -> int | None:
    if values is None:
        return None
    # counting separators is much cheaper than decoding numbers that nobody reads
    text = bytes(values.value).strip()
    if not text.startswith(b"["):
        return None
    return text.count(b",") + 1 if text[1:-1].strip() else 0

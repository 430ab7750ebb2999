"""One line of `journal.jsonl`: the only history of a run."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from runner.models.base import SCHEMA_VERSION, Record
from runner.models.status import Phase, Reason, Status


class EventKind(StrEnum):
    """What happened."""

    RUN_STARTED = "run_started"
    RUN_RESUMED = "run_resumed"
    RUN_ENDED = "run_ended"
    SERVER_STARTED = "server_started"
    SERVER_PHASE = "server_phase"
    SERVER_ENDED = "server_ended"
    CELL_STARTED = "cell_started"
    CELL_PHASE = "cell_phase"
    CELL_ENDED = "cell_ended"
    STOP_REQUESTED = "stop_requested"
    NOTE = "note"


class Event(Record):
    """`at` is UTC, ISO 8601 with milliseconds; `sequence` counts from 0 without gaps."""

    schema_version: int = SCHEMA_VERSION
    sequence: int
    at: str
    kind: EventKind
    server: str | None = None
    cell: str | None = None
    attempt: int | None = None
    phase: Phase | None = None
    status: Status | None = None
    reason: Reason | None = None
    message: str | None = None
    data: Mapping[str, str | int | float | bool | None] = Field(default_factory=dict)

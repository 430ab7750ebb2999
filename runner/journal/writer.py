"""Append to `journal.jsonl`: one event a line, on disk before the caller goes on."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime
from pathlib import Path

from runner.journal.replay import replay
from runner.models.event import Event, EventKind
from runner.models.status import Phase, Reason, Status

Scalar = str | int | float | bool | None


def utc_now() -> str:
    """UTC now, ISO 8601 with milliseconds and `Z`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Journal:
    """The only writer of a run's history. Safe for several threads of one process.

    A torn last line, left by a crash in the middle of a write, is cut off when the journal is
    opened: every line of the file is a whole event.
    """

    def __init__(self, path: Path):
        self._lock = threading.Lock()
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        self.events: list[Event] = list(replay(whole))
        self._file = path.open("ab")
        if len(whole) != len(data):
            self._file.truncate(len(whole))

    def append(
        self,
        kind: EventKind,
        *,
        server: str | None = None,
        cell: str | None = None,
        attempt: int | None = None,
        phase: Phase | None = None,
        status: Status | None = None,
        reason: Reason | None = None,
        message: str | None = None,
        data: dict[str, Scalar] | None = None,
    ) -> Event:
        """Write one event and return it; it is on disk when this returns."""
        with self._lock:
            event = Event(
                sequence=len(self.events),
                at=utc_now(),
                kind=kind,
                server=server,
                cell=cell,
                attempt=attempt,
                phase=phase,
                status=status,
                reason=reason,
                message=message,
                data=data or {},
            )
            line = event.model_dump_json(exclude_none=True, exclude_defaults=False)
            self._file.write(line.encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
            self.events.append(event)
            return event

    def close(self) -> None:
        """Idempotent."""
        self._file.close()

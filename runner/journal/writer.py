"""Append to `journal.jsonl`: one event a line, on disk before the caller goes on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from runner.errors import ArtifactError
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
    opened: every line of the file is a whole event. An event that can't be written leaves no trace.

    Args:
        path: the file; made when it does not exist.
        mask: takes secrets out of a message before it is written.
    """

    def __init__(self, path: Path, mask: Callable[[str], str] = str):
        self._lock = threading.Lock()
        self._mask = mask
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        self.events: list[Event] = list(replay(whole))
        self._file = path.open("ab", buffering=0)
        self._size_bytes = len(whole)
        self._file.truncate(self._size_bytes)

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
        """Write one event and return it; it is on disk when this returns.

        Raises:
            ArtifactError: it can't be written.
        """
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
                message=None if message is None else self._mask(message),
                data=data or {},
            )
            line = event.model_dump_json(exclude_none=True, exclude_defaults=False)
            self._write(line.encode() + b"\n")
            self.events.append(event)
            return event

    def _write(self, line: bytes) -> None:
        try:
            left = memoryview(line)
            while left:
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            # a part of a line must not become the beginning of the next one
            self._file.truncate(self._size_bytes)
            raise ArtifactError(
                f"the journal can't be written: {error.strerror}",
                where=self._file.name,
                next_step="look at free space and permissions on the host: df -h",
            ) from error
        self._size_bytes += len(line)

    def close(self) -> None:
        """Idempotent."""
        self._file.close()

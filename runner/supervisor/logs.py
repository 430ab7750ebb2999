"""Logs on disk: raw bytes, masked, with a sidecar that ties offsets to the clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from pathlib import Path

from runner.engine.base import LogChunk
from runner.errors import EngineError
from runner.journal.writer import utc_now
from runner.models.layout import LOG_INDEX_SUFFIX
from runner.supervisor.redact import Redactor

_INDEX_EVERY_S = 0.2
TAIL_BYTES = 64 * 1024


class TimedLog:
    """An append-only log file with its `.times` sidecar.

    When a file of an earlier life of the supervisor exists, that many bytes of the new stream
    are taken as already written: the engine replays a container's output from its first byte.
    """

    def __init__(self, path: Path, redactor: Redactor, *, replayed: bool = False):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._stream = redactor.stream()
        self._file = path.open("ab", buffering=0)
        self._index = path.with_name(path.name + LOG_INDEX_SUFFIX).open("ab", buffering=0)
        self._size = self._file.tell()
        self._skip = self._size if replayed else 0
        self._indexed_at = 0.0
        self._lock = threading.Lock()
        self.tail = b""

    def write(self, data: bytes) -> None:
        """Append masked bytes; a part that may be the start of a secret is written later."""
        with self._lock:
            self._append(self._stream.feed(data))

    def close(self) -> None:
        """Write what was held back and close. Idempotent."""
        with self._lock:
            if self._file.closed:
                return
            self._append(self._stream.flush())
            self._file.close()
            self._index.close()

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._size

    def _append(self, data: bytes) -> None:
        self.tail = (self.tail + data)[-TAIL_BYTES:]
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
        if not data:
            return
        now = time.time()
        if now - self._indexed_at >= _INDEX_EVERY_S:
            self._index.write(b"%d %d\n" % (int(now * 1000), self._size))
            self._indexed_at = now
        self._file.write(data)
        self._size += len(data)


class LogPump:
    """Copies a container's output into its log from a thread of its own, until it ends.

    stdout and stderr go into the same file in the order in which the engine hands them out.
    """

    def __init__(self, chunks: Iterable[LogChunk], log: TimedLog):
        self._log = log
        self._thread = threading.Thread(target=self._copy, args=(chunks,), daemon=True)
        self._thread.start()

    def _copy(self, chunks: Iterable[LogChunk]) -> None:
        try:
            for chunk in chunks:
                self._log.write(chunk.data)
        except EngineError as error:
            self._log.write(f"\n[runner] log capture ended early: {error.what}\n".encode())

    @property
    def size_bytes(self) -> int:
        """Bytes captured so far."""
        return self._log.size_bytes

    def tail_lines(self, count: int) -> list[str]:
        """The last lines captured, as text."""
        return self._log.tail.decode("utf-8", "replace").splitlines()[-count:]

    @property
    def tail_text(self) -> str:
        """The last 64 KiB captured, as text."""
        return self._log.tail.decode("utf-8", "replace")

    def finish(self, timeout_s: float = 10.0) -> None:
        """Wait for the end of the output and close the log."""
        self._thread.join(timeout_s)
        self._log.close()


class RunLog:
    """`supervisor.log`: one line a message, with the time in front."""

    def __init__(self, path: Path, redactor: Redactor):
        self._log = TimedLog(path, redactor)

    def say(self, message: str) -> None:
        """Append one message; line breaks inside are indented."""
        text = message.replace("\n", "\n    ")
        self._log.write(f"{utc_now()} {text}\n".encode())

    def close(self) -> None:
        """Idempotent."""
        self._log.close()

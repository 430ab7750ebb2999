"""What every way of reaching a host offers. The rest of the program knows only this."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Protocol


class Source(StrEnum):
    """Which stream a chunk came from."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True)
class Chunk:
    """Raw bytes of one stream; a chunk may end in the middle of a line or a character."""

    source: Source
    data: bytes


@dataclass(frozen=True)
class Completed:
    """A command that ended. Output kept in memory is bounded (8 MiB each, the tail is kept)."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """stdout as text."""
        return self.stdout.decode("utf-8", "replace")


@dataclass(frozen=True)
class FileStat:
    """Size in bytes, modification time in seconds since the epoch."""

    size_bytes: int
    modified_s: float
    is_directory: bool


class Stream(Protocol):
    """A running command: iterate for its output; `exit_code` is set when the iteration ends."""

    exit_code: int | None

    def __enter__(self) -> Stream: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def __iter__(self) -> Iterator[Chunk]: ...


class Connection(Protocol):
    """A host. Commands are argv lists; paths are absolute paths on the host.

    Every method raises a `HostError`: `ConnectionLost` when the link broke (the caller may
    connect again), `CommandTimedOut` at a deadline, `CommandFailed` for an exit code other than 0
    when `check` is true. No library's own exception passes.
    """

    name: str

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | None = None,
        timeout_s: float = 60.0,
        check: bool = True,
    ) -> Completed:
        """Run to the end; both streams are drained together; the deadline covers everything,
        and what ran is ended on the host when it passes."""
        ...

    def stream(
        self,
        argv: Sequence[str],
        *,
        stdin: Iterable[bytes] | None = None,
        timeout_s: float | None = None,
    ) -> Stream:
        """Start, feed `stdin`, hand out output as it comes; leaving the block ends the command."""
        ...

    def get(self, path: str, *, offset: int = 0, limit_bytes: int | None = None) -> bytes:
        """Bytes of a file from `offset`; `FileNotFoundError` becomes `FileMissing`."""
        ...

    def put(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file whole (temporary name, then rename); parent folders are made."""
        ...

    def stat(self, path: str) -> FileStat | None:
        """None when there is nothing at `path`."""
        ...

    def list(self, path: str) -> tuple[str, ...]:
        """Sorted names in a folder; empty when it does not exist."""
        ...

    def close(self) -> None:
        """Idempotent."""
        ...

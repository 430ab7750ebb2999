"""A host over SSH."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from runner.errors import HostError
from runner.transport.base import Completed, FileStat
from runner.transport.command import RunningCommand, run_to_end
from runner.transport.quoting import quoted, shown
from runner.transport.resolve import ResolvedHost
from runner.transport.ssh_files import RemoteFiles
from runner.transport.ssh_link import Link, open_link
from runner.transport.ssh_login import Prompt
from runner.transport.ssh_process import SshProcess, lost

# sshd allows 10 sessions on a connection by default: one is SFTP's, one is for ending a command
_COMMANDS_AT_ONCE = 8
_START_LIMIT_S = 30.0


class SshConnection:
    """A `Connection` over one SSH link; safe to use from several threads.

    A broken link is reported as `ConnectionLost` and stays broken: connect again for a new one.
    """

    def __init__(self, link: Link) -> None:
        self.name = link.target.name
        self._link = link
        self._files = RemoteFiles(link)
        self._places = threading.BoundedSemaphore(_COMMANDS_AT_ONCE)

    @classmethod
    def open(cls, target: ResolvedHost, prompt: Prompt | None = None) -> SshConnection:
        """Connect through all hops; see `ssh_link.open_link` for the errors."""
        return cls(open_link(target, prompt))

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | None = None,
        timeout_s: float = 60.0,
        check: bool = True,
    ) -> Completed:
        """See `Connection.run`."""
        blocks = None if stdin is None else (stdin,)
        return run_to_end(self.stream(argv, stdin=blocks, timeout_s=timeout_s), check=check)

    def stream(
        self,
        argv: Sequence[str],
        *,
        stdin: Iterable[bytes] | None = None,
        timeout_s: float | None = None,
    ) -> RunningCommand:
        """See `Connection.stream`. Eight commands at once; a further one waits for its turn."""
        quoted(argv)
        limit_s = _START_LIMIT_S if timeout_s is None else timeout_s
        if self._link.is_lost():
            raise lost(self._link, f"starting `{shown(argv)}`")
        if not self._places.acquire(timeout=limit_s):
            raise HostError(
                f"{_COMMANDS_AT_ONCE} commands run over this connection, no room for "
                f"`{shown(argv)}` within {limit_s:g} s",
                where=self._link.target.label,
                next_step="open a second connection for long-running commands",
            )
        try:
            process = SshProcess(self._link, argv, released=self._places.release, timeout_s=limit_s)
        except BaseException:
            self._places.release()
            raise
        return RunningCommand(
            process, argv=argv, host=self._link.target.label, stdin=stdin, timeout_s=timeout_s
        )

    def get(self, path: str, *, offset: int = 0, limit_bytes: int | None = None) -> bytes:
        """See `Connection.get`."""
        return self._files.get(path, offset, limit_bytes)

    def put(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """See `Connection.put`."""
        self._files.put(path, data, mode)

    def stat(self, path: str) -> FileStat | None:
        """See `Connection.stat`; times are whole seconds."""
        return self._files.stat(path)

    def list(self, path: str) -> tuple[str, ...]:
        """See `Connection.list`."""
        return self._files.list(path)

    def close(self) -> None:
        """See `Connection.close`; commands that still run are not ended."""
        self._files.close()
        self._link.close()

"""One command in one channel, with a process group that can be ended."""

from __future__ import annotations

import re
import secrets
import selectors
import threading
import time
from collections.abc import Callable, Sequence

import paramiko
from paramiko.ssh_exception import ChannelException, SSHException

from runner.errors import ConnectionLost, HostError
from runner.transport.base import Chunk, Source
from runner.transport.command import READ_BYTES
from runner.transport.quoting import MAX_LINE_BYTES, announced, end_of_group, shown
from runner.transport.ssh_link import Link

_START_LIMIT_S = 30.0
_END_LIMIT_S = 5.0
_SETTLE_S = 1.0
_NOISE_LIMIT_BYTES = 1 << 20


def lost(link: Link, doing: str, error: BaseException | None = None) -> ConnectionLost:
    """The one wording for a broken link."""
    detail = f" ({error})" if error is not None and str(error) else ""
    return ConnectionLost(
        f"the connection broke while {doing}{detail}",
        where=link.target.label,
        next_step="what runs there goes on; run the command again when the host answers",
    )


class SshProcess:
    """A started remote command. See `command.Process` for the methods.

    Args:
        link: where.
        argv: what.
        released: called once when the channel is given back.
        timeout_s: bound on starting it.
    """

    def __init__(
        self, link: Link, argv: Sequence[str], *, released: Callable[[], None], timeout_s: float
    ) -> None:
        self._link = link
        self._argv = tuple(argv)
        self._released = released
        self._closing = threading.Lock()
        self._closed = False
        self._group: int | None = None
        self._noise = b""
        mark = secrets.token_hex(8)
        self._announcement = re.compile(rb"(?:^|.*?)%b (\d+)\n" % mark.encode(), re.DOTALL)
        self._channel = _start(link, announced(argv, mark), argv, timeout_s)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._channel.fileno(), selectors.EVENT_READ)

    def read(self, timeout_s: float) -> tuple[Chunk, ...]:
        """See `Process.read`."""
        try:
            return self._read(timeout_s)
        except (SSHException, EOFError, OSError) as error:
            # taking data tells the host that there is room again, which fails on a broken link
            raise lost(self._link, f"`{shown(self._argv)}` was running") from error

    def _read(self, timeout_s: float) -> tuple[Chunk, ...]:
        channel = self._channel
        if not (channel.recv_ready() or channel.recv_stderr_ready()):
            self._selector.select(timeout_s)
        chunks = []
        if channel.recv_ready():
            data = self._without_announcement(channel.recv(READ_BYTES))
            if data:
                chunks.append(Chunk(Source.STDOUT, data))
        if channel.recv_stderr_ready():
            chunks.append(Chunk(Source.STDERR, channel.recv_stderr(READ_BYTES)))
        return tuple(chunks)

    def output_ended(self) -> bool:
        """See `Process.output_ended`."""
        channel = self._channel
        # the order matters: data that comes before the end is there when the end is seen
        ended = bool(channel.eof_received or channel.closed)
        return ended and not channel.recv_ready() and not channel.recv_stderr_ready()

    def exit_code(self) -> int | None:
        """See `Process.exit_code`."""
        channel = self._channel
        if not channel.status_event.is_set():
            return None
        if channel.exit_status >= 0:
            if self._group is None and self.output_ended():
                raise self._not_started()
            return channel.exit_status
        if self._link.is_lost(_SETTLE_S):
            raise lost(self._link, f"`{shown(self._argv)}` was running")
        raise HostError(
            f"`{shown(self._argv)}` ended without an exit code: its shell was killed",
            where=self._link.target.label,
            next_step="look for the reason on the host: `dmesg | tail`",
        )

    def wait(self, timeout_s: float) -> int | None:
        """See `Process.wait`."""
        self._channel.status_event.wait(timeout_s)
        return self.exit_code()

    def write(self, data: bytes) -> None:
        """See `Process.write`."""
        try:
            self._channel.sendall(data)
        except (SSHException, EOFError) as error:
            raise BrokenPipeError(str(error)) from error

    def close_stdin(self) -> None:
        """See `Process.close_stdin`."""
        try:
            self._channel.shutdown_write()
        except (SSHException, EOFError, OSError):
            # closed already: the reader learns why
            return

    def end(self) -> bool:
        """See `Process.end`."""
        deadline = time.monotonic() + _SETTLE_S
        while self._group is None and time.monotonic() < deadline and not self.output_ended():
            self.read(_SETTLE_S / 10)
        if self._group is None:
            return False
        try:
            return _status_of(self._link, end_of_group(self._group)) == 0
        except (SSHException, EOFError, OSError):
            return False

    def close(self) -> None:
        """See `Process.close`."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        self._selector.close()
        try:
            self._channel.close()
        except (SSHException, EOFError, OSError):
            # a broken link has closed it
            pass
        finally:
            self._released()

    def _without_announcement(self, data: bytes) -> bytes:
        """What the start-up files of a login shell print comes before the announcement."""
        if self._group is not None:
            return data
        self._noise += data
        found = self._announcement.match(self._noise)
        if found is not None:
            self._group = int(found.group(1))
            rest, self._noise = self._noise[found.end() :], b""
            return rest
        if len(self._noise) > _NOISE_LIMIT_BYTES:
            raise self._not_started()
        return b""

    def _not_started(self) -> HostError:
        said = self._noise.decode("utf-8", "replace").strip()[:200]
        return HostError(
            f"the login shell of '{self._link.target.user}' did not run `{shown(self._argv)}`"
            + (f"; it said: {said}" if said else ""),
            where=self._link.target.label,
            next_step="the user needs a POSIX shell: `getent passwd USER` on the host shows it",
        )


def _start(link: Link, line: str, argv: Sequence[str], timeout_s: float) -> paramiko.Channel:
    size = len(line.encode())
    if size > MAX_LINE_BYTES:
        raise HostError(
            f"`{shown(argv)}` makes a command line of {size} bytes; sshd takes {MAX_LINE_BYTES}",
            where=link.target.label,
            next_step="pass large data through stdin or a file, not as words of the command",
        )
    limit_s = min(timeout_s, _START_LIMIT_S)
    try:
        channel = link.transport.open_session(timeout=limit_s)
        # the answer to the request has no limit of its own in paramiko
        guard = threading.Timer(limit_s, channel.close)
        guard.daemon = True
        guard.start()
        try:
            channel.exec_command(line)
        finally:
            guard.cancel()
    except ChannelException as error:
        raise HostError(
            f"the server refused another session for `{shown(argv)}`: {error}",
            where=link.target.label,
            next_step="raise MaxSessions in its sshd_config (10 is the default and enough)",
        ) from error
    except (SSHException, EOFError, OSError) as error:
        raise lost(link, f"starting `{shown(argv)}`", error) from error
    return channel


def _status_of(link: Link, line: str) -> int | None:
    """Exit code of a short command of our own; None when it does not come in time."""
    channel = link.transport.open_session(timeout=_END_LIMIT_S)
    guard = threading.Timer(_END_LIMIT_S, channel.close)
    guard.daemon = True
    guard.start()
    try:
        channel.exec_command(line)
        return channel.recv_exit_status()
    finally:
        guard.cancel()
        channel.close()

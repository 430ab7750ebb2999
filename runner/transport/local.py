"""This machine, with the same semantics as one that is far away."""

from __future__ import annotations

import os
import secrets
import selectors
import signal
import stat as modes
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from runner.errors import FileMissing, HostError
from runner.transport.base import Chunk, Completed, FileStat, Source
from runner.transport.command import READ_BYTES, RunningCommand, run_to_end
from runner.transport.quoting import quoted, shown

_GRACE_S = 1.0
_POLL_S = 0.02

# what a shell says and returns when there is no such program, or it may not be run
_CANNOT_START = 'printf "%s: %s\\n" "$1" "$2" >&2; exit "$3"'


class LocalProcess:
    """A child in a session of its own, so that its process group can be ended whole."""

    def __init__(self, argv: Sequence[str], *, with_stdin: bool) -> None:
        self._child = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE if with_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._closed = False
        self._selector = selectors.DefaultSelector()
        for source, pipe in (
            (Source.STDOUT, self._child.stdout),
            (Source.STDERR, self._child.stderr),
        ):
            assert pipe is not None
            self._selector.register(pipe, selectors.EVENT_READ, source)
        if self._child.stdin is not None:
            os.set_blocking(self._child.stdin.fileno(), False)

    def read(self, timeout_s: float) -> tuple[Chunk, ...]:
        """See `Process.read`."""
        chunks = []
        for key, _ in self._selector.select(timeout_s):
            data = os.read(key.fd, READ_BYTES)
            if data:
                chunks.append(Chunk(key.data, data))
            else:
                self._selector.unregister(key.fileobj)
        return tuple(chunks)

    def output_ended(self) -> bool:
        """See `Process.output_ended`."""
        return not self._selector.get_map()

    def exit_code(self) -> int | None:
        """See `Process.exit_code`."""
        code = self._child.poll()
        return 128 - code if code is not None and code < 0 else code

    def wait(self, timeout_s: float) -> int | None:
        """See `Process.wait`."""
        try:
            self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        return self.exit_code()

    def write(self, data: bytes) -> None:
        """See `Process.write`."""
        assert self._child.stdin is not None
        pipe = self._child.stdin.fileno()
        view = memoryview(data)
        with selectors.DefaultSelector() as room:
            room.register(pipe, selectors.EVENT_WRITE)
            while view:
                # a child in the background may hold the other end for ever
                if self._closed:
                    raise BrokenPipeError("the command is over")
                if room.select(_GRACE_S):
                    view = view[_write_some(pipe, view) :]

    def close_stdin(self) -> None:
        """See `Process.close_stdin`."""
        if self._child.stdin is not None:
            self._child.stdin.close()

    def end(self) -> bool:
        """See `Process.end`."""
        group = self._child.pid
        deadline = time.monotonic() + _GRACE_S
        alive = _signalled(group, signal.SIGTERM)
        while alive and time.monotonic() < deadline:
            self._child.poll()
            time.sleep(_POLL_S)
            alive = _signalled(group, 0)
        if alive:
            _signalled(group, signal.SIGKILL)
        return self.wait(_GRACE_S) is not None

    def close(self) -> None:
        """See `Process.close`."""
        self._closed = True
        self._selector.close()
        for pipe in (self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()


class LocalConnection:
    """A `Connection` to this machine."""

    def __init__(self, name: str = "local") -> None:
        self.name = name

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
        """See `Connection.stream`."""
        process = self._start(argv, with_stdin=stdin is not None)
        return RunningCommand(process, argv=argv, host=self.name, stdin=stdin, timeout_s=timeout_s)

    def get(self, path: str, *, offset: int = 0, limit_bytes: int | None = None) -> bytes:
        """See `Connection.get`."""
        with self._file_errors("read", path), Path(path).open("rb") as file:
            file.seek(offset)
            return file.read() if limit_bytes is None else file.read(limit_bytes)

    def put(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """See `Connection.put`."""
        target = Path(path)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        with self._file_errors("write", path):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with temporary.open("xb") as file:
                    os.fchmod(file.fileno(), mode)
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(target)
            finally:
                temporary.unlink(missing_ok=True)

    def stat(self, path: str) -> FileStat | None:
        """See `Connection.stat`."""
        try:
            with self._file_errors("look at", path):
                found = Path(path).stat()
        except FileMissing:
            return None
        return FileStat(found.st_size, found.st_mtime, modes.S_ISDIR(found.st_mode))

    def list(self, path: str) -> tuple[str, ...]:
        """See `Connection.list`."""
        try:
            with self._file_errors("list", path):
                return tuple(sorted(os.listdir(path)))  # noqa: PTH208 - names, not paths
        except FileMissing:
            return ()

    def close(self) -> None:
        """See `Connection.close`; nothing is held."""

    def _start(self, argv: Sequence[str], *, with_stdin: bool) -> LocalProcess:
        quoted(argv)
        try:
            return LocalProcess(argv, with_stdin=with_stdin)
        except FileNotFoundError:
            failing = ("sh", "-c", _CANNOT_START, "sh", argv[0], "not found", "127")
        except PermissionError:
            failing = ("sh", "-c", _CANNOT_START, "sh", argv[0], "permission denied", "126")
        except OSError as error:
            raise HostError(
                f"`{shown(argv)}` could not be started: {error.strerror}",
                where=self.name,
                next_step="pass large data through stdin or a file, not as words of the command",
            ) from error
        return LocalProcess(failing, with_stdin=with_stdin)

    @contextmanager
    def _file_errors(self, verb: str, path: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileMissing(
                f"could not {verb} {path}: no such file or folder",
                where=self.name,
                next_step=f"check the path with `ls -la {Path(path).parent}`",
            ) from error
        except OSError as error:
            raise HostError(
                f"could not {verb} {path}: {error.strerror}",
                where=self.name,
                next_step=f"check owner and mode with `ls -la {Path(path).parent}`",
            ) from error


def _write_some(pipe: int, view: memoryview) -> int:
    try:
        return os.write(pipe, view)
    except BlockingIOError:
        return 0


def _signalled(group: int, number: int) -> bool:
    """Whether the group exists and could be signalled."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True

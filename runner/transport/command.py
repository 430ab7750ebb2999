"""A running command, the same over every kind of connection: deadline, drain, feeding, end."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Protocol

from runner.errors import CommandFailed, CommandTimedOut, HostError
from runner.transport.base import Chunk, Completed, Source
from runner.transport.quoting import shown

MEMORY_LIMIT_BYTES = 8 << 20
READ_BYTES = 64 << 10

_ERROR_TAIL_BYTES = 64 << 10
_FEED_BYTES = 64 << 10
_POLL_S = 0.05
# A child left in the background keeps the streams open after the command ended: what is still on
# its way is taken until the streams are quiet, and never for longer than the limit.
_DRAIN_QUIET_S = 0.3
_DRAIN_LIMIT_S = 10.0


class Process(Protocol):
    """What a connection offers for one started command. `read`, `exit_code` and `wait` raise
    `ConnectionLost` when the link is gone."""

    def read(self, timeout_s: float) -> tuple[Chunk, ...]:
        """Output that is there, after waiting at most `timeout_s` for the first of it."""
        ...

    def output_ended(self) -> bool:
        """Both streams are at their end and read."""
        ...

    def exit_code(self) -> int | None:
        """None while it runs; 128 + N after signal N."""
        ...

    def wait(self, timeout_s: float) -> int | None:
        """The exit code, or None when it still runs after `timeout_s`."""
        ...

    def write(self, data: bytes) -> None:
        """Feed all of `data`, waiting for room; `OSError` when nobody reads any more."""
        ...

    def close_stdin(self) -> None:
        """Let the command see the end of its input."""
        ...

    def end(self) -> bool:
        """End the process group; False when it may still run."""
        ...

    def close(self) -> None:
        """Release what this side holds. Idempotent."""
        ...


class Tail:
    """The last `limit_bytes` of what was added."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._blocks: deque[bytes] = deque()
        self._size = 0

    def add(self, data: bytes) -> None:
        """Append; whole blocks that are no longer needed are dropped."""
        self._blocks.append(data)
        self._size += len(data)
        while self._size - len(self._blocks[0]) >= self._limit:
            self._size -= len(self._blocks.popleft())

    def value(self) -> bytes:
        """The bytes kept."""
        return b"".join(self._blocks)[-self._limit :]


class RunningCommand:
    """A `Stream`: iterate for output; leaving the block ends the command if it still runs.

    Args:
        process: the started command.
        argv: for messages.
        host: name of the host, for messages.
        stdin: blocks to feed from a thread of its own; None for an empty input.
        timeout_s: seconds for all of it; None for no deadline.
    """

    def __init__(
        self,
        process: Process,
        *,
        argv: Sequence[str],
        host: str,
        stdin: Iterable[bytes] | None,
        timeout_s: float | None,
    ) -> None:
        self.exit_code: int | None = None
        self.argv = tuple(argv)
        self.host = host
        self._process = process
        self._timeout_s = timeout_s
        self._deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._tails = {source: Tail(_ERROR_TAIL_BYTES) for source in Source}
        self._feed_error: Exception | None = None
        self._finished = False
        self._over = threading.Event()
        self._chunks = self._generate()
        if stdin is None:
            process.close_stdin()
        else:
            threading.Thread(
                target=self._feed, args=(stdin,), name="runner-stdin", daemon=True
            ).start()

    def __enter__(self) -> RunningCommand:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._chunks.close()
        self._finish()

    def __iter__(self) -> Iterator[Chunk]:
        return self._chunks

    def _generate(self) -> Generator[Chunk, None, None]:
        try:
            for chunk in self._output():
                self._tails[chunk.source].add(chunk.data)
                yield chunk
            self.exit_code = self._await_exit()
        finally:
            self._finish()

    def _output(self) -> Iterator[Chunk]:
        """Until both streams end, or the command has ended and its streams are quiet."""
        ended_s: float | None = None
        last_s = 0.0
        while not self._process.output_ended():
            if ended_s is None:
                self._check_deadline()
            chunks = self._process.read(self._patience_s())
            yield from chunks
            now = time.monotonic()
            if chunks:
                last_s = now
            if ended_s is None:
                ended_s = None if self._process.exit_code() is None else now
            elif now - max(ended_s, last_s) > _DRAIN_QUIET_S or now - ended_s > _DRAIN_LIMIT_S:
                return

    def _await_exit(self) -> int:
        while (code := self._process.wait(self._patience_s())) is None:
            self._check_deadline()
        return code

    def _patience_s(self) -> float:
        if self._deadline is None:
            return _POLL_S
        return max(0.0, min(_POLL_S, self._deadline - time.monotonic()))

    def _check_deadline(self) -> None:
        if self._feed_error is not None:
            raise self._feed_error
        if self._deadline is None or time.monotonic() < self._deadline:
            return
        # a command that ended in time is not late because its output was fetched slowly
        if self._process.exit_code() is not None:
            return
        self._finished = True
        try:
            ended = self._process.end()
        finally:
            self._release()
        raise CommandTimedOut(
            f"`{shown(self.argv)}` did not end within {self._timeout_s:g} s"
            + (" and was ended" if ended else "; it could not be ended and may still run"),
            where=self.host,
            next_step="look at the load of the host, or allow more time",
            stdout_tail=self._tails[Source.STDOUT].value(),
            stderr_tail=self._tails[Source.STDERR].value(),
        )

    def _finish(self) -> None:
        if self._finished:
            return
        self._finished = True
        try:
            if self.exit_code is None and self._process.exit_code() is None:
                self._process.end()
        except HostError:
            # the link is gone: nothing can be ended through it, and the reader was told
            pass
        finally:
            self._release()

    def _release(self) -> None:
        self._over.set()
        self._process.close()

    def _feed(self, stdin: Iterable[bytes]) -> None:
        blocks = iter(stdin)
        while True:
            try:
                block = next(blocks, None)
            except Exception as error:  # the caller's own error, raised again where it reads
                # no end of input here: a truncated input must not look whole to the command
                self._feed_error = error
                self._over.wait()
                break
            if block is None:
                break
            try:
                for start in range(0, len(block), _FEED_BYTES):
                    self._process.write(block[start : start + _FEED_BYTES])
            except OSError:
                # the command stopped reading: its exit code tells whether that is an error
                break
        self._process.close_stdin()


def run_to_end(command: RunningCommand, *, check: bool) -> Completed:
    """Read a command to its end with bounded memory.

    Raises:
        CommandFailed: the exit code is not 0 and `check` is true.
        CommandTimedOut, ConnectionLost: from the command.
    """
    tails = {source: Tail(MEMORY_LIMIT_BYTES) for source in Source}
    with command:
        for chunk in command:
            tails[chunk.source].add(chunk.data)
    code = command.exit_code
    assert code is not None, "an iteration that ends without an error sets the exit code"
    done = Completed(command.argv, code, tails[Source.STDOUT].value(), tails[Source.STDERR].value())
    if check and code != 0:
        raise _failed(done, command.host)
    return done


def _failed(done: Completed, host: str) -> CommandFailed:
    stderr = done.stderr.decode("utf-8", "replace").strip()
    said = f": {stderr.splitlines()[-1]}" if stderr else ", nothing on stderr"
    return CommandFailed(
        f"`{shown(done.argv)}` ended with exit code {done.exit_code}{said}",
        where=host,
        next_step="run the command on the host by hand to see the whole of its output",
        command_exit_code=done.exit_code,
        stderr=stderr,
    )

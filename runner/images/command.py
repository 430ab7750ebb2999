"""The engine's command on a host: its argv, and following its output line by line."""

from __future__ import annotations

import codecs
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runner.errors import EngineError
from runner.models.host import Host
from runner.transport.base import Connection, Source

TAIL_LINES = 25
_BREAK = re.compile(r"\r\n|\n|\r")
_LOGIN = re.compile(r"://[^/@\s]+@")

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Followed:
    """How a command ended, with the last lines of its output."""

    exit_code: int
    tail: tuple[str, ...]

    @property
    def text(self) -> str:
        """The last lines, as one text."""
        return "\n".join(self.tail)


def engine_argv(host: Host, *arguments: str) -> list[str]:
    """argv of the engine's command on this host, spoken to over the host's own socket."""
    return [host.engine.command, "-H", f"unix://{host.engine.socket}", *arguments]


class _Lines:
    """Text lines out of chunks that may end in the middle of a line or a character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data: bytes, *, final: bool = False) -> Iterator[str]:
        text = self._rest + self._decoder.decode(data, final)
        held = ""
        if text.endswith("\r") and not final:
            # the line feed that belongs to it may come with the next chunk
            text, held = text[:-1], "\r"
        *whole, rest = _BREAK.split(text)
        self._rest = rest + held
        if final and self._rest:
            whole.append(self._rest)
        yield from (_LOGIN.sub("://***@", line) for line in whole if line.strip())


def follow(
    connection: Connection,
    argv: Sequence[str],
    progress: Progress,
    *,
    stdin: Iterable[bytes] | None = None,
    timeout_s: float | None = None,
) -> Followed:
    """Run to the end; each line of output goes to `progress` as it comes.

    Logins in addresses are shown as `***`. Errors are those of `Connection.stream`; an exit code
    other than 0 is left to the caller.
    """
    lines = {source: _Lines() for source in Source}
    tail: deque[str] = deque(maxlen=TAIL_LINES)

    def tell(found: Iterable[str]) -> None:
        for line in found:
            tail.append(line)
            progress(line)

    with connection.stream(argv, stdin=stdin, timeout_s=timeout_s) as stream:
        for chunk in stream:
            tell(lines[chunk.source].feed(chunk.data))
        for left in lines.values():
            tell(left.feed(b"", final=True))
        code = stream.exit_code
    if code is None:
        raise EngineError(f"'{argv[0]}' ended without an exit code", where=connection.name)
    return Followed(code, tuple(tail))


def inspect(connection: Connection, host: Host, reference: str) -> dict[str, Any] | None:
    """The engine's own record of an image on the host; None when it is not there.

    Raises:
        EngineError: the engine can't be asked.
    """
    done = connection.run(
        engine_argv(host, "image", "inspect", reference), timeout_s=60.0, check=False
    )
    if done.exit_code != 0:
        problem = done.stderr.decode("utf-8", "replace").strip()
        if "no such image" in problem.lower():
            return None
        raise EngineError(
            f"the engine at {host.engine.socket} can't be asked for image '{reference}': "
            f"{problem or f'exit code {done.exit_code}'}",
            where=host.name,
            next_step=f"runner hosts check {host.name}",
        )
    found = json.loads(done.stdout)
    record: dict[str, Any] = found[0]
    return record

"""Show and follow the logs of a run by byte offset: nothing twice, nothing missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from runner.client.display import LineDecoder
from runner.client.log_position import (
    host_clock_ms,
    offset_of_tail,
    offset_since,
    parse_since,
)
from runner.client.runs import RunReader
from runner.errors import ConnectionLost, FileMissing, HostError, HostUnreachable, UsageError
from runner.journal.replay import RunState
from runner.models.plan import Plan
from runner.models.status import Status
from runner.transport.base import Connection

_POLL_S = 0.25
_READ_BYTES = 256 * 1024
_LIVENESS_EVERY_S = 5.0
_MANIFEST_WAIT_S = 15.0
_BACKOFF_S = (0.5, 1.0, 2.0, 4.0, 8.0)
_GIVE_UP_S = 300.0


class LogSource(StrEnum):
    """Which logs of a run are meant."""

    SUPERVISOR = "supervisor"
    SERVER = "server"
    LOAD = "load"


@dataclass(frozen=True)
class LogChoice:
    """What `runner logs` shows: a source, one cell or all, from where, and whether to follow."""

    source: LogSource | None = None
    cell: str | None = None
    tail: int | None = None
    since: str | None = None
    follow: bool = False

    @property
    def effective_source(self) -> LogSource:
        """The source given, else the load log of a cell, else the supervisor's."""
        if self.source is not None:
            return self.source
        return LogSource.LOAD if self.cell else LogSource.SUPERVISOR


@dataclass(frozen=True)
class LogFile:
    """One log on the host; `name` is what stands in front of its lines."""

    name: str
    path: str


@dataclass(frozen=True)
class LogLine:
    """One line fit for display and the log that it comes from."""

    name: str
    text: str


def check_choice(plan: Plan, choice: LogChoice) -> None:
    """Refuse a choice that this run can't satisfy.

    Raises:
        UsageError: an unknown cell, or a cell together with the supervisor's log.
    """
    if choice.cell is None:
        return
    if choice.source is LogSource.SUPERVISOR:
        raise UsageError(
            "--cell picks the log of a cell; the supervisor has one log for all of them",
            next_step=f"runner logs {plan.run_id} --cell {choice.cell} --source load",
        )
    if choice.cell not in {cell.id for cell in plan.cells}:
        from difflib import get_close_matches

        near = get_close_matches(choice.cell, [cell.id for cell in plan.cells], n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise UsageError(
            f"run {plan.run_id} has no cell '{choice.cell}'{hint}",
            next_step=f"runner status {plan.run_id}",
        )


def log_files(reader: RunReader, state: RunState, choice: LogChoice) -> list[LogFile]:
    """The chosen logs of the attempts that have begun, in the order of the plan."""
    layout, plan = reader.ref.layout, reader.plan
    source = choice.effective_source
    if source is LogSource.SUPERVISOR:
        return [LogFile("supervisor", str(layout.supervisor_log))]
    cells = [cell for cell in plan.cells if choice.cell in (None, cell.id)]
    if source is LogSource.LOAD:
        return [
            LogFile(_attempt_name(cell.id, number), str(layout.attempt(cell.id, number).load_log))
            for cell in cells
            for number in range(1, state.cells[cell.id].attempt + 1)
        ]
    wanted = {cell.server for cell in cells}
    return [
        LogFile(_attempt_name(server.id, number), str(layout.server(server.id, number).log))
        for server in plan.servers
        if server.id in wanted
        for number in range(1, state.servers[server.id].attempt + 1)
    ]


def _attempt_name(name: str, number: int) -> str:
    return name if number == 1 else f"{name}#{number}"


@dataclass
class LogCursor:
    """A position in one log: how far it was read and what of a line is pending."""

    file: LogFile
    offset: int = 0
    decoder: LineDecoder = field(default_factory=LineDecoder)

    def advance(self, connection: Connection) -> Iterator[LogLine]:
        """Lines that have come since last time.

        The offset moves only after bytes have arrived, so a lost connection costs nothing.
        """
        while True:
            try:
                data = connection.get(self.file.path, offset=self.offset, limit_bytes=_READ_BYTES)
            except FileMissing:
                return
            if not data:
                return
            self.offset += len(data)
            for text in self.decoder.feed(data):
                yield LogLine(self.file.name, text)
            if len(data) < _READ_BYTES:
                return

    def end(self) -> Iterator[LogLine]:
        """The last line when it has no newline."""
        for text in self.decoder.close():
            yield LogLine(self.file.name, text)


@dataclass
class LogReader:
    """Reads the chosen logs of one run.

    Args:
        reader: the run.
        choice: what to show.
        reconnect: gives a new connection to the host; raises HostError while it can't.
        note: told about lost and regained connections, for the person at the terminal.
        sleep: waits so many seconds.
    """

    reader: RunReader
    choice: LogChoice
    reconnect: Callable[[], Connection]
    note: Callable[[str], None] = lambda _: None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _cursors: dict[str, LogCursor] = field(default_factory=dict)
    _started: bool = False
    _since_ms: int | None = None

    def lines(self) -> Iterator[LogLine]:
        """What there is now, and with `follow` what comes, until the run is final.

        Raises:
            UsageError: the choice does not fit the run.
            HostError: the host stayed away for too long, or the run is LOST while followed.
        """
        state = self._begin()
        yield from self._advance(state)
        if self.choice.follow:
            yield from self._follow(state)
        for cursor in self._cursors.values():
            yield from cursor.end()

    @property
    def names(self) -> int:
        """Length of the longest name of the logs seen so far."""
        return max((len(cursor.file.name) for cursor in self._cursors.values()), default=0)

    @property
    def several(self) -> bool:
        """True when lines of more than one log may come, so that each needs its name in front."""
        plan, source = self.reader.plan, self.choice.effective_source
        if source is LogSource.SUPERVISOR:
            return False
        if self.choice.cell is None:
            return len(plan.cells if source is LogSource.LOAD else plan.servers) > 1
        return len(self._cursors) > 1

    def _begin(self) -> RunState:
        check_choice(self.reader.plan, self.choice)
        if self.choice.since is not None:
            now_ms = host_clock_ms(self.reader.connection)
            self._since_ms = parse_since(self.choice.since, now_ms)
        state = self.reader.state()
        self._add_cursors(state)
        self._started = True
        return state

    def _add_cursors(self, state: RunState) -> None:
        for file in log_files(self.reader, state, self.choice):
            if file.path in self._cursors:
                continue
            # logs that appear later are shown whole: all of them is newer than the start
            offset = 0 if self._started else self._offset(file.path)
            self._cursors[file.path] = LogCursor(file, offset)

    def _offset(self, path: str) -> int:
        connection, offset = self.reader.connection, 0
        if self._since_ms is not None:
            offset = offset_since(connection, path, self._since_ms)
        if self.choice.tail is not None:
            offset = max(offset, offset_of_tail(connection, path, self.choice.tail))
        return offset

    def _read_bytes(self) -> int:
        return sum(cursor.offset for cursor in self._cursors.values())

    def _advance(self, state: RunState) -> Iterator[LogLine]:
        self._add_cursors(state)
        for cursor in list(self._cursors.values()):
            yield from cursor.advance(self.reader.connection)

    def _follow(self, state: RunState) -> Iterator[LogLine]:
        alive_at = self.clock() - _LIVENESS_EVERY_S
        final_at: float | None = None
        suspected = False
        while True:
            self.sleep(_POLL_S)
            try:
                whole = self.reader.complete() if state.status.final else False
                if not state.status.final:
                    state = self.reader.state()
                read = self._read_bytes()
                yield from self._advance(state)
                if self._read_bytes() > read:
                    # only a live supervisor writes, and asking the engine costs lag
                    alive_at, suspected = self.clock(), False
                if state.status.final:
                    final_at = self.clock() if final_at is None else final_at
                    if whole or self.clock() - final_at > _MANIFEST_WAIT_S:
                        return
                elif self.clock() - alive_at > _LIVENESS_EVERY_S:
                    alive_at = self.clock()
                    suspected = self._check_alive(suspected)
            except (ConnectionLost, HostUnreachable) as lost:
                self._come_back(lost)

    def _check_alive(self, suspected: bool) -> bool:
        view = self.reader.view()
        if view.state.status is not Status.LOST:
            return False
        if not suspected:
            return True  # a supervisor that the engine restarts is away for a moment
        raise HostError(
            f"run {self.reader.ref.run_id} is LOST: {view.state.message}",
            where=self.reader.ref.host,
            next_step=view.next_step,
        )

    def _come_back(self, lost: HostError) -> None:
        self.note(f"{lost.what}; the run goes on, connecting again")
        began = self.clock()
        attempt = 0
        while True:
            self.sleep(_BACKOFF_S[min(attempt, len(_BACKOFF_S) - 1)])
            attempt += 1
            try:
                self.reader.connection = self.reconnect()
            except (ConnectionLost, HostUnreachable) as error:
                if self.clock() - began > _GIVE_UP_S:
                    raise ConnectionLost(
                        f"no connection for {_GIVE_UP_S:.0f} s: {error.what}",
                        where=self.reader.ref.host,
                        next_step=f"runner logs {self.reader.ref.run_id} -f",
                    ) from error
                continue
            self.note("connected again")
            return

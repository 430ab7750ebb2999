"""How the state of one run looks in a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from runner.cli.output import (
    data_console,
    emit,
    emit_table,
    human_time,
    say,
    talk_console,
)
from runner.client.runs import RunReader, RunView
from runner.client.status import elapsed_s
from runner.errors import ConnectionLost, HostUnreachable
from runner.models.status import Status

if TYPE_CHECKING:
    from rich.console import Group

    from runner.journal.replay import WorkState
    from runner.transport.base import Connection

_EVERY_S = 1.0
_GIVE_UP_S = 300.0


def summary(view: RunView) -> Iterator[str]:
    """Lines about the whole run."""
    state = view.state
    yield f"{view.ref.run_id} on {view.ref.host}: {state.status}"
    if state.reason or state.message:
        yield f"  {state.reason or ''}: {state.message or ''}".rstrip(": ")
    cells = len(state.cells)
    parts = [f"{state.count(status)} {status.lower()}" for status in Status if state.count(status)]
    took = human_time(elapsed_s(state.started_at, state.ended_at))
    yield f"  {cells} cells: {', '.join(parts) or 'none'}; {took}"
    if state.stop_requested and not state.status.final:
        yield "  stop requested"
    if state.resumed:
        yield f"  resumed {state.resumed} times"
    if state.ended_at and not view.complete:
        yield "  not complete: no manifest yet"
    yield f"  {view.ref.root}"
    if view.next_step:
        yield f"  next: {view.next_step}"


def _rows(kind: str, table: Mapping[str, WorkState]) -> Iterator[tuple[object, ...]]:
    for name, work in table.items():
        running = work.status is Status.RUNNING
        note = (
            work.phase if running else work.message if work.status is not Status.SUCCEEDED else ""
        )
        reason = work.reason if work.status not in (Status.SUCCEEDED, Status.PENDING) else None
        took = elapsed_s(work.started_at, work.ended_at)
        yield (
            kind,
            name,
            work.status.value,
            human_time(took) if work.started_at else None,
            work.attempt if work.attempt > 1 else None,
            f"{reason}: {note}" if reason and note else reason or note or None,
        )


def print_view(view: RunView) -> None:
    """The run on stdout: summary, servers, cells."""
    for line in summary(view):
        emit(line)
    if view.state.cells:
        emit("")
        rows = [*_rows("server", view.state.servers), *_rows("cell", view.state.cells)]
        emit_table(("", "NAME", "STATUS", "TIME", "ATTEMPT", "NOTE"), rows)


def watch_run(reader: RunReader, reconnect: Callable[[], Connection]) -> RunView:
    """Show a run until it is final; returns its last state. Redraws only on a terminal.

    Raises:
        HostError: the host stayed away for five minutes.
    """
    if not sys.stderr.isatty():
        return _watch_plainly(reader, reconnect)
    from rich.live import Live

    with Live(console=talk_console(), auto_refresh=False, transient=True) as live:
        while True:
            view = _read(reader, reconnect)
            live.update(_drawing(view), refresh=True)
            if view.state.status.final:
                return view
            time.sleep(_EVERY_S)


def _watch_plainly(reader: RunReader, reconnect: Callable[[], Connection]) -> RunView:
    shown = ""
    while True:
        view = _read(reader, reconnect)
        line = f"{view.state.status}: {_counts(view)}"
        if line != shown:
            say(line)
            shown = line
        if view.state.status.final:
            return view
        time.sleep(_EVERY_S)


def _counts(view: RunView) -> str:
    running = [name for name, work in view.state.cells.items() if work.status is Status.RUNNING]
    done = sum(1 for work in view.state.cells.values() if work.status.final)
    now = f", now {', '.join(running)}" if running else ""
    return f"{done} of {len(view.state.cells)} cells done{now}"


def _drawing(view: RunView) -> Group:
    from rich.console import Group
    from rich.text import Text

    console = data_console()
    rows = []
    work_rows = [*_rows("server", view.state.servers), *_rows("cell", view.state.cells)]
    for row in work_rows[-(max(console.height, 12) - 8) :]:
        cells = ["" if cell is None else str(cell) for cell in row]
        rows.append(Text("  ".join(cells), no_wrap=True, overflow="ellipsis"))
    return Group(*(Text(line) for line in summary(view)), *rows)


def await_end(reader: RunReader, reconnect: Callable[[], Connection]) -> RunView:
    """The last state of a run, shown nowhere on the way; errors as in `watch_run`."""
    while not (view := _read(reader, reconnect)).state.status.final:
        time.sleep(_EVERY_S)
    return view


def _read(reader: RunReader, reconnect: Callable[[], Connection]) -> RunView:
    """The state now. A lost connection is told once and made again, for five minutes."""
    began: float | None = None
    while True:
        try:
            if began is not None:
                reader.connection = reconnect()
            view = reader.view()
        except (ConnectionLost, HostUnreachable) as lost:
            if began is None:
                began = time.monotonic()
                say(f"note: {lost.what}; the run goes on, connecting again")
            if time.monotonic() - began > _GIVE_UP_S:
                raise
            time.sleep(_EVERY_S)
        else:
            if began is not None:
                say("note: connected again")
            return view

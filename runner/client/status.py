"""Where runs stand: one in detail, or one row each for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from runner.client.fleet import Answers, Fleet
from runner.client.runs import RunView, list_runs, read_state
from runner.errors import ArtifactError, RunnerError
from runner.journal.replay import WorkState
from runner.models.host import Host
from runner.models.status import Status
from runner.transport.base import Connection


@dataclass(frozen=True)
class RunRow:
    """One line of `runner ps`. `status` is a `Status`, or `UNREADABLE` with the error as message.

    Times are UTC in ISO 8601.
    """

    host: str
    job: str
    run_id: str
    status: str
    cells: int
    succeeded: int
    failed: int
    started_at: str | None
    ended_at: str | None
    complete: bool
    message: str | None
    next_step: str | None
    unavailable: int = 0


def list_rows(
    fleet: Fleet, hosts: Sequence[str] = (), *, newest: int | None = 20
) -> Answers[tuple[RunRow, ...]]:
    """Rows of every host asked, newest first; at most `newest` of each host.

    Raises:
        UsageError: a host is not in the inventory.
    """
    return fleet.ask(partial(_rows, newest=newest), hosts)


def _rows(connection: Connection, host: Host, newest: int | None) -> tuple[RunRow, ...]:
    refs = list_runs(connection, host)[::-1]
    rows = []
    for ref in refs if newest is None else refs[:newest]:
        try:
            rows.append(row_of(read_state(connection, host, ref)))
        except ArtifactError as error:
            rows.append(_unreadable(ref.host, ref.job, ref.run_id, error))
    return tuple(rows)


def _unreadable(host: str, job: str, run_id: str, error: RunnerError) -> RunRow:
    return RunRow(
        host, job, run_id, "UNREADABLE", 0, 0, 0, None, None, False, error.what, error.next_step
    )


def row_of(view: RunView) -> RunRow:
    """One run in one row."""
    state = view.state
    return RunRow(
        host=view.ref.host,
        job=view.ref.job,
        run_id=view.ref.run_id,
        status=state.status.value,
        cells=len(state.cells),
        succeeded=state.count(Status.SUCCEEDED),
        failed=state.count(Status.FAILED),
        started_at=state.started_at,
        ended_at=state.ended_at,
        complete=view.complete,
        message=state.message,
        next_step=view.next_step,
        unavailable=state.count(Status.UNAVAILABLE),
    )


def status_record(view: RunView) -> dict[str, Any]:
    """Everything that `runner status --format json` gives, as plain data."""
    row = row_of(view)
    return {
        **row.__dict__,
        "reason": view.state.reason.value if view.state.reason else None,
        "supervisor": view.supervisor.value if view.supervisor else None,
        "stop_requested": view.state.stop_requested,
        "resumed": view.state.resumed,
        "run_dir": view.ref.root,
        "servers": {name: _work_record(work) for name, work in view.state.servers.items()},
        "cell_states": {name: _work_record(work) for name, work in view.state.cells.items()},
    }


def _work_record(work: WorkState) -> dict[str, Any]:
    return {
        "status": work.status.value,
        "attempt": work.attempt,
        "phase": work.phase.value if work.phase else None,
        "reason": work.reason.value if work.reason else None,
        "message": work.message,
        "started_at": work.started_at,
        "ended_at": work.ended_at,
    }


def elapsed_s(started_at: str | None, ended_at: str | None, now: datetime | None = None) -> float:
    """Seconds from start to end, or to now while it runs; 0 when it has not started."""
    if started_at is None:
        return 0.0
    end = datetime.fromisoformat(ended_at) if ended_at else now or datetime.now(UTC)
    return max(0.0, (end - datetime.fromisoformat(started_at)).total_seconds())

"""After a restart: what can be taken over, and how everything else of the earlier life ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from runner.engine.base import ContainerState
from runner.journal.replay import RunState, WorkState, derive
from runner.journal.writer import utc_now
from runner.models.event import Event, EventKind
from runner.models.plan import (
    LABEL_ATTEMPT,
    LABEL_CELL,
    LABEL_ROLE,
    LABEL_RUN,
    LABEL_SERVER,
)
from runner.models.result import CellResult, ServerResult
from runner.models.status import Phase, Reason, Status
from runner.supervisor.conclude import conclude_cell, conclude_server
from runner.supervisor.context import ROLE_LOAD, ROLE_SERVER, RunContext
from runner.supervisor.server import READY_AFTER_S


@dataclass(frozen=True)
class LeftOver:
    """A ready server that still runs, and the load on it (running or just ended), if any."""

    container: str
    attempt: int
    started_at: str
    ready_after_s: float | None
    load: str | None = None
    cell: str | None = None
    cell_attempt: int = 0
    cell_started_at: str = ""


def find_left_over(context: RunContext, state: RunState) -> dict[str, LeftOver]:
    """Server id -> what can be adopted. A server counts only when it was proven ready."""
    containers = context.engine.list({LABEL_RUN: context.plan.run_id})
    found: dict[str, LeftOver] = {}
    for server_id, work in state.servers.items():
        ready = _ready_event(context, server_id, work.attempt)
        if work.status is not Status.RUNNING or ready is None:
            continue
        container = _pick(containers, ROLE_SERVER, LABEL_SERVER, server_id, work.attempt)
        if container is None or not container.running:
            continue
        after = ready.data.get(READY_AFTER_S)
        left_over = LeftOver(
            container.id,
            work.attempt,
            work.started_at or "",
            after if isinstance(after, float) else None,
        )
        found[server_id] = _with_load(context, state, containers, left_over, server_id)
    return found


def _with_load(
    context: RunContext,
    state: RunState,
    containers: tuple[ContainerState, ...],
    base: LeftOver,
    server_id: str,
) -> LeftOver:
    for cell in context.plan.cells_of(server_id):
        work = state.cells[cell.id]
        verdict = context.layout.attempt(cell.id, work.attempt).result
        if work.status is not Status.RUNNING or Path(verdict).exists():
            continue
        load = _pick(containers, ROLE_LOAD, LABEL_CELL, cell.id, work.attempt)
        # one that was made and never started has measured nothing
        if load is not None and load.status != "created":
            return replace(
                base,
                load=load.id,
                cell=cell.id,
                cell_attempt=work.attempt,
                cell_started_at=work.started_at or "",
            )
    return base


def _ready_event(context: RunContext, server_id: str, attempt: int) -> Event | None:
    for event in context.journal.events:
        if (
            event.kind is EventKind.SERVER_PHASE
            and event.server == server_id
            and event.attempt == attempt
            and event.phase is Phase.READY
        ):
            return event
    return None


def _pick(
    containers: tuple[ContainerState, ...], role: str, label: str, name: str, attempt: int
) -> ContainerState | None:
    for container in containers:
        labels = container.labels
        if (
            labels.get(LABEL_ROLE) == role
            and labels.get(label) == name
            and labels.get(LABEL_ATTEMPT) == str(attempt)
        ):
            return container
    return None


def close_orphans(context: RunContext, left_over: dict[str, LeftOver]) -> None:
    """Close what the journal has as running and nobody takes over.

    A verdict that was on disk when the supervisor ended stands; what has none was cut off.
    """
    state = derive(context.plan, context.journal.events)
    adopted_cells = {item.cell for item in left_over.values() if item.cell}
    for name, work in state.servers.items():
        if work.status is Status.RUNNING and name not in left_over:
            _close_server(context, name, work)
    for name, work in state.cells.items():
        if work.status is Status.RUNNING and name not in adopted_cells:
            _close_cell(context, name, work)


def _close_server(context: RunContext, name: str, work: WorkState) -> None:
    path = Path(context.layout.server(name, work.attempt).result)
    if path.exists():
        told = ServerResult.model_validate_json(path.read_bytes())
        conclude_server(context, told, on_disk=True)
        return
    conclude_server(
        context,
        ServerResult(
            server=name,
            attempt=work.attempt,
            status=Status.FAILED,
            reason=Reason.SUPERVISOR_LOST,
            message=_cut_off(work),
            started_at=work.started_at or utc_now(),
            ended_at=utc_now(),
        ),
    )


def _close_cell(context: RunContext, name: str, work: WorkState) -> None:
    path = Path(context.layout.attempt(name, work.attempt).result)
    if path.exists():
        told = CellResult.model_validate_json(path.read_bytes())
        conclude_cell(context, told, on_disk=True)
        return
    conclude_cell(
        context,
        CellResult(
            cell=name,
            attempt=work.attempt,
            server=context.plan.cell(name).server,
            server_attempt=None,
            status=Status.FAILED,
            reason=Reason.SUPERVISOR_LOST,
            message=_cut_off(work),
            started_at=work.started_at or utc_now(),
            ended_at=utc_now(),
        ),
    )


def _cut_off(work: WorkState) -> str:
    return f"attempt {work.attempt} was cut off when the supervisor ended"

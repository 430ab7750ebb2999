"""After a restart: what of the earlier life still runs and can be taken over."""

from __future__ import annotations

from dataclasses import dataclass

from runner.engine.base import ContainerState
from runner.journal.replay import RunState
from runner.models.event import EventKind
from runner.models.plan import (
    LABEL_ATTEMPT,
    LABEL_CELL,
    LABEL_ROLE,
    LABEL_RUN,
    LABEL_SERVER,
)
from runner.models.status import Phase, Status
from runner.supervisor.context import ROLE_LOAD, ROLE_SERVER, RunContext


@dataclass(frozen=True)
class LeftOver:
    """A ready server that still runs, and the load on it (running or just ended), if any."""

    container: str
    attempt: int
    started_at: str
    load: str | None = None
    cell: str | None = None
    cell_attempt: int = 0
    cell_started_at: str = ""


def find_left_over(context: RunContext, state: RunState) -> dict[str, LeftOver]:
    """Server id -> what can be adopted. A server counts only when it was proven ready."""
    containers = context.engine.list({LABEL_RUN: context.plan.run_id})
    found: dict[str, LeftOver] = {}
    for server_id, work in state.servers.items():
        if work.status is not Status.RUNNING or not _was_ready(context, server_id, work.attempt):
            continue
        container = _pick(containers, ROLE_SERVER, LABEL_SERVER, server_id, work.attempt)
        if container is None or not container.running:
            continue
        found[server_id] = _with_load(
            context,
            state,
            containers,
            LeftOver(container.id, work.attempt, work.started_at or ""),
            server_id,
        )
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
        if work.status is not Status.RUNNING or work.phase is not Phase.LOAD:
            continue
        load = _pick(containers, ROLE_LOAD, LABEL_CELL, cell.id, work.attempt)
        if load is not None:
            return LeftOver(
                base.container,
                base.attempt,
                base.started_at,
                load.id,
                cell.id,
                work.attempt,
                work.started_at or "",
            )
    return base


def _was_ready(context: RunContext, server_id: str, attempt: int) -> bool:
    return any(
        event.kind is EventKind.SERVER_PHASE
        and event.server == server_id
        and event.attempt == attempt
        and event.phase is Phase.READY
        for event in context.journal.events
    )


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

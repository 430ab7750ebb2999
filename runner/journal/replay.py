"""Read a journal back and derive from it where a run stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from runner.errors import ArtifactError
from runner.models.event import Event, EventKind
from runner.models.plan import Plan
from runner.models.status import Phase, Reason, Status


def replay(data: bytes) -> Iterator[Event]:
    """Events of a journal. A last line without newline is a write in progress and is left out.

    Raises:
        ArtifactError: a whole line is not an event.
    """
    end = data.rfind(b"\n") + 1
    for number, line in enumerate(data[:end].splitlines(), start=1):
        try:
            yield Event.model_validate_json(line)
        except ValidationError as error:
            raise ArtifactError(
                f"line {number} is not an event: {line[:80]!r}",
                where="journal.jsonl",
                next_step="runner artifacts verify RUN",
            ) from error


@dataclass
class WorkState:
    """Where one cell or one server stands; `attempt` is the newest (0 = not started)."""

    status: Status = Status.PENDING
    attempt: int = 0
    phase: Phase | None = None
    reason: Reason | None = None
    message: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    failed_attempts: int = 0


@dataclass
class RunState:
    """Where a run stands, derived from its plan and journal alone."""

    run_id: str
    job: str
    status: Status = Status.PENDING
    reason: Reason | None = None
    message: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    stop_requested: bool = False
    resumed: int = 0
    cells: dict[str, WorkState] = field(default_factory=dict)
    servers: dict[str, WorkState] = field(default_factory=dict)

    def count(self, status: Status) -> int:
        """Number of cells with this status."""
        return sum(1 for cell in self.cells.values() if cell.status is status)


def derive(plan: Plan, events: Iterable[Event]) -> RunState:
    """State of the run after these events. Pure; a final status of a run is never overwritten."""
    state = RunState(
        run_id=plan.run_id,
        job=plan.job,
        cells={cell.id: WorkState() for cell in plan.cells},
        servers={server.id: WorkState() for server in plan.servers},
    )
    for event in events:
        _apply(state, event)
    return state


def _apply(state: RunState, event: Event) -> None:
    match event.kind:
        case EventKind.RUN_STARTED:
            if not state.status.final:
                state.status, state.started_at = Status.RUNNING, event.at
        case EventKind.RUN_RESUMED:
            state.resumed += 1
        case EventKind.RUN_ENDED:
            if not state.status.final and event.status is not None:
                state.status, state.reason = event.status, event.reason
                state.message, state.ended_at = event.message, event.at
        case EventKind.STOP_REQUESTED:
            state.stop_requested = True
        case EventKind.SERVER_STARTED | EventKind.SERVER_PHASE | EventKind.SERVER_ENDED:
            _apply_work(state.servers, event.server, event)
        case EventKind.CELL_STARTED | EventKind.CELL_PHASE | EventKind.CELL_ENDED:
            _apply_work(state.cells, event.cell, event)
        case EventKind.NOTE:
            pass


def _apply_work(table: Mapping[str, WorkState], name: str | None, event: Event) -> None:
    work = table.get(name or "")
    if work is None:
        return
    if event.kind in (EventKind.SERVER_STARTED, EventKind.CELL_STARTED):
        if work.status is Status.FAILED:
            work.failed_attempts += 1
        work.status, work.attempt = Status.RUNNING, event.attempt or work.attempt + 1
        work.phase, work.reason, work.message = Phase.PREPARE, None, None
        work.started_at, work.ended_at = event.at, None
    elif event.kind in (EventKind.SERVER_PHASE, EventKind.CELL_PHASE):
        work.phase = event.phase
    elif event.status is not None:
        work.status, work.reason = event.status, event.reason
        work.message, work.ended_at = event.message, event.at
        work.attempt = event.attempt or work.attempt

"""Carry out a plan: every server once, its cells one after the other, everything written down."""

from __future__ import annotations

from collections.abc import Sequence

from runner.errors import ContainerGone, EngineError
from runner.journal.replay import RunState, derive
from runner.journal.writer import utc_now
from runner.models.event import EventKind
from runner.models.plan import CellPlan, ServerPlan
from runner.models.result import CellResult
from runner.models.status import Reason, Status
from runner.supervisor.cell import CellRun, finish_cell, run_cell
from runner.supervisor.conclude import conclude_cell
from runner.supervisor.context import RunContext
from runner.supervisor.interrupt import StopRequested
from runner.supervisor.reconcile import LeftOver, close_orphans, find_left_over
from runner.supervisor.server import RunningServer, ServerFailed, adopt_server, start_server

_MAX_SERVER_DEATHS = 3


def carry_out(context: RunContext) -> Status:
    """Run what the journal says is still to do; return the final status of the run."""
    state = derive(context.plan, context.journal.events)
    if state.status.final:
        return state.status
    left_over = _begin(context, state)
    try:
        for server in context.plan.servers:
            _serve(context, server, left_over.get(server.id))
    except StopRequested:
        _stop(context)
    context.sweep()
    return _end(context)


def _begin(context: RunContext, state: RunState) -> dict[str, LeftOver]:
    """Network, own attachment, and what an earlier life of the supervisor left behind."""
    plan, engine = context.plan, context.engine
    resumed = bool(context.journal.events)
    context.journal.append(EventKind.RUN_RESUMED if resumed else EventKind.RUN_STARTED)
    context.log.say(
        f"run {plan.run_id} {'resumed' if resumed else 'started'}: {len(plan.servers)} servers, "
        f"{len(plan.cells)} cells on {plan.host.name}"
    )
    engine.ensure_network(plan.network, dict(plan.supervisor.labels))
    try:
        engine.connect(plan.network, plan.supervisor.name)
    except ContainerGone:
        context.log.say("not running in the planned container; using the host's network")
    if not resumed:
        return {}
    left_over = find_left_over(context, state)
    keep = {item.container for item in left_over.values()}
    keep |= {item.load for item in left_over.values() if item.load}
    context.sweep(frozenset(keep))
    close_orphans(context, left_over)
    return left_over


def _todo(context: RunContext, server: ServerPlan) -> list[tuple[CellPlan, int]]:
    """Cells that still need an attempt, with its number. Only a host event earns a second one:
    a measurement that failed is never repeated until it looks good."""
    state = derive(context.plan, context.journal.events)
    cells = []
    for cell in context.plan.cells_of(server.id):
        work = state.cells[cell.id]
        if work.status is Status.PENDING or work.reason is Reason.SUPERVISOR_LOST:
            cells.append((cell, work.attempt + 1))
    return cells


def _serve(context: RunContext, server: ServerPlan, left_over: LeftOver | None) -> None:
    """All cells of one server; a server that dies is started again for the cells that remain."""
    if not _wanted(context, server):
        return
    running = _adopt(context, server, left_over) if left_over else None
    while todo := _todo(context, server):
        if running is None:
            context.stop.check()
            running = _start(context, server, todo)
            if running is None:
                return
        if not _measure(context, running, todo):
            running.end(Status.FAILED, Reason.SERVER_DIED, "ended while it was needed")
            running = None
    if running is not None:
        running.end(Status.SUCCEEDED, Reason.COMPLETED, "all its cells are done")


def _wanted(context: RunContext, server: ServerPlan) -> bool:
    """False for a stand-in whose server did not turn out unavailable; its cells are then closed.

    The journal alone tells, so that a supervisor that starts anew decides the same.
    """
    if server.instead_of is None:
        return True
    servers = derive(context.plan, context.journal.events).servers
    first = servers[server.instead_of]
    if first.status is Status.UNAVAILABLE:
        return True
    if first.status is Status.FAILED:
        why = f"it failed, which is not the same: {first.message}"
    else:
        why = "it serves as the comparator"
    message = (
        f"not needed: '{server.id}' stands in where '{server.instead_of}' is unavailable; {why}"
    )
    _close_rest(context, server, Status.UNAVAILABLE, Reason.NOT_NEEDED, message)
    if not servers[server.id].status.final:
        context.journal.append(
            EventKind.SERVER_ENDED,
            server=server.id,
            attempt=0,
            status=Status.UNAVAILABLE,
            reason=Reason.NOT_NEEDED,
            message=message,
        )
    return False


def _start(
    context: RunContext, server: ServerPlan, todo: Sequence[tuple[CellPlan, int]]
) -> RunningServer | None:
    """A ready server, or None after every waiting cell has been failed with its reason."""
    given_up = _given_up(context, server)
    if given_up is None:
        attempt = derive(context.plan, context.journal.events).servers[server.id].attempt + 1
        try:
            return start_server(context, server, attempt)
        except ServerFailed as failure:
            given_up = failure.reason, failure.message
    reason, message = given_up
    context.log.say(f"{len(todo)} cells of server {server.id} can't run")
    if reason is Reason.SERVER_REFUSED:
        words = f"unavailable: {message}"
        _close_rest(context, server, Status.UNAVAILABLE, reason, words)
    else:
        _close_rest(context, server, Status.FAILED, reason, f"server '{server.id}': {message}")
    return None


def _given_up(context: RunContext, server: ServerPlan) -> tuple[Reason, str] | None:
    """Why a server is not to be started again. The journal alone tells, so that a supervisor
    that starts anew decides the same."""
    ends = [
        event
        for event in context.journal.events
        if event.kind is EventKind.SERVER_ENDED and event.server == server.id
    ]
    deaths = sum(event.reason is Reason.SERVER_DIED for event in ends)
    if deaths >= _MAX_SERVER_DEATHS:
        return Reason.SERVER_DIED, f"it died {deaths} times"
    for event in ends:
        again = event.reason in (Reason.SERVER_DIED, Reason.SUPERVISOR_LOST)
        if event.status in (Status.FAILED, Status.UNAVAILABLE) and not again:
            return event.reason or Reason.INTERNAL_ERROR, event.message or ""
    return None


def _measure(
    context: RunContext, running: RunningServer, todo: Sequence[tuple[CellPlan, int]]
) -> bool:
    """Run cells until all are done (True) or the server is gone (False)."""
    for cell, attempt in todo:
        try:
            context.stop.check()
            run_cell(context, cell, attempt, running)
        except StopRequested:
            running.end(Status.STOPPED, Reason.STOPPED_BY_USER, "stopped")
            raise
        if not running.alive():
            return False
    return True


def _adopt(context: RunContext, server: ServerPlan, left_over: LeftOver) -> RunningServer | None:
    """Continue with a server, and with the load on it, that outlived the last supervisor."""
    running = adopt_server(
        context,
        server,
        left_over.attempt,
        left_over.container,
        left_over.started_at,
        left_over.ready_after_s,
    )
    if left_over.load and left_over.cell:
        layout = context.layout.attempt(left_over.cell, left_over.cell_attempt)
        cell = CellRun(
            context,
            context.plan.cell(left_over.cell),
            left_over.cell_attempt,
            running,
            layout,
            left_over.cell_started_at,
        )
        context.log.say(f"cell {cell.plan.id}: adopted, its load goes on")
        pump = context.capture(left_over.load, layout.load_log, replayed=True)
        try:
            finish_cell(cell, left_over.load, pump)
        except StopRequested:
            running.end(Status.STOPPED, Reason.STOPPED_BY_USER, "stopped")
            raise
    if not running.alive():
        running.end(Status.FAILED, Reason.SERVER_DIED, "ended while it was needed")
        return None
    return running


def _close_rest(
    context: RunContext, server: ServerPlan, status: Status, reason: Reason, message: str
) -> None:
    for cell, attempt in _todo(context, server):
        _close_unrun(context, cell, attempt, status, reason, message)


def _stop(context: RunContext) -> None:
    if not derive(context.plan, context.journal.events).stop_requested:
        context.journal.append(EventKind.STOP_REQUESTED)
    context.log.say("stop requested: what has not run is closed")
    for server in context.plan.servers:
        for cell, attempt in _todo(context, server):
            _close_unrun(
                context, cell, attempt, Status.STOPPED, Reason.STOPPED_BY_USER, "not started"
            )


def _close_unrun(
    context: RunContext, cell: CellPlan, attempt: int, status: Status, reason: Reason, message: str
) -> None:
    """A cell that gets no attempt still gets a verdict that says why."""
    now = utc_now()
    conclude_cell(
        context,
        CellResult(
            cell=cell.id,
            attempt=attempt,
            server=cell.server,
            server_attempt=None,
            status=status,
            reason=reason,
            message=message,
            started_at=now,
            ended_at=now,
        ),
    )


def _end(context: RunContext) -> Status:
    state = derive(context.plan, context.journal.events)
    total, good = len(state.cells), state.count(Status.SUCCEEDED)
    unavailable = state.count(Status.UNAVAILABLE)
    if state.stop_requested:
        status, reason = Status.STOPPED, Reason.STOPPED_BY_USER
    elif good and good + unavailable == total:
        status, reason = Status.SUCCEEDED, Reason.COMPLETED
    else:
        status, reason = Status.FAILED, Reason.CELLS_FAILED
    message = f"{good} of {total} cells succeeded"
    if unavailable:
        message += f", {unavailable} unavailable"
    try:
        context.engine.disconnect(context.plan.network, context.plan.supervisor.name)
        context.engine.remove_network(context.plan.network)
    except EngineError as error:
        context.log.say(f"left behind: network {context.plan.network}: {error.what}")
    context.journal.append(EventKind.RUN_ENDED, status=status, reason=reason, message=message)
    context.log.say(f"run {context.plan.run_id} ended: {status} ({reason}) {message}")
    return status

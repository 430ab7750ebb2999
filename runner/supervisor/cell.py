"""One attempt of a cell: warm up, scrape, load, scrape, verify, record."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from runner.analysis.verify import verdict, verify_cell
from runner.errors import ContainerGone, EngineError, RunnerError
from runner.journal.writer import utc_now
from runner.models.event import EventKind
from runner.models.layout import AttemptLayout
from runner.models.plan import CellPlan, for_attempt
from runner.models.result import CellResult, Check, RequestCounts, Verdict
from runner.models.status import Phase, Reason, Status
from runner.supervisor.conclude import conclude_cell
from runner.supervisor.context import RunContext
from runner.supervisor.http import ServerUnreachable
from runner.supervisor.interrupt import StopRequested
from runner.supervisor.logs import LogPump
from runner.supervisor.server import RunningServer, proof_body

_POLL_S = 0.3
_SETTLE_TRIES = 50
# vLLM counts a step in the very turn of its event loop that hands out the step's tokens
_SETTLE_S = 0.1
_COUNTED = ("vllm:spec_decode_", "vllm:generation_tokens_total", "vllm:request_success_total")


@dataclass(frozen=True)
class LoadEnd:
    """How a load container ended. `reason` is set when the supervisor ended it."""

    exit_code: int | None
    reason: Reason | None = None
    message: str = ""


@dataclass
class CellRun:
    """A cell attempt in progress on a running server."""

    context: RunContext
    plan: CellPlan
    attempt: int
    server: RunningServer
    layout: AttemptLayout
    started_at: str
    prefix_cache_reset: bool | None = None

    def phase(self, phase: Phase) -> None:
        """Note in the journal which step begins."""
        self.context.journal.append(
            EventKind.CELL_PHASE,
            cell=self.plan.id,
            server=self.plan.server,
            attempt=self.attempt,
            phase=phase,
        )


def run_cell(context: RunContext, plan: CellPlan, attempt: int, server: RunningServer) -> Status:
    """Measure one cell and record the verdict; failures are recorded, not raised.

    Raises:
        StopRequested: after the cell has been recorded as stopped.
    """
    cell = CellRun(
        context, plan, attempt, server, context.layout.attempt(plan.id, attempt), utc_now()
    )
    context.journal.append(
        EventKind.CELL_STARTED, cell=plan.id, server=plan.server, attempt=attempt
    )
    context.log.say(f"cell {plan.id}: starting (attempt {attempt}, {plan.requests} requests)")
    try:
        _prepare(cell)
        _warm_up(cell)
        container, pump = _start_load(cell)
    except StopRequested:
        record(cell, Status.STOPPED, Reason.STOPPED_BY_USER, "stopped before the load began")
        raise
    except ServerUnreachable as error:
        return record(cell, Status.FAILED, *_unreachable(cell, error))
    except EngineError as error:
        # it may run although its start was not confirmed, or its output can't be read
        context.discard(for_attempt(plan.container, attempt).name, signal="SIGKILL", grace_s=1)
        return record(cell, Status.FAILED, Reason.ENGINE_ERROR, error.what)
    return finish_cell(cell, container, pump)


def finish_cell(cell: CellRun, container: str, pump: LogPump) -> Status:
    """From a running load container to the recorded verdict; also used after a restart."""
    end = _watch_load(cell, container)
    cell.context.save_inspect(container, cell.layout.load_inspect)
    if end.exit_code is None:
        # nobody can tell whether it still runs; the counters must be at rest
        cell.context.discard(container, signal="SIGKILL", grace_s=1)
    pump.finish()
    cell.phase(Phase.VERIFY)
    metrics_after = _scrape_after(cell)
    if metrics_after is None and end.reason is None and cell.server.gone():
        end = LoadEnd(end.exit_code, Reason.SERVER_DIED, _obituary(cell.server))
    try:
        counts, checks = verify_cell(
            cell.plan,
            cell.server.plan,
            Path(cell.layout.exports),
            _read_text(Path(cell.layout.metrics_before)),
            metrics_after,
            end.exit_code,
        )
        checks = (*checks, prefix_cache_state(cell))
        status, reason, message = verdict(checks)
    except RunnerError as error:
        counts, checks = None, ()
        status, reason = Status.FAILED, Reason.INCOMPLETE
        message = f"exports can't be read: {error.what}"
    if end.reason is not None:
        stopped = end.reason is Reason.STOPPED_BY_USER
        status, reason, message = (
            Status.STOPPED if stopped else Status.FAILED,
            end.reason,
            end.message,
        )
    record(
        cell, status, reason, message, counts=counts, checks=checks, load_exit_code=end.exit_code
    )
    # not before: until the verdict is on disk, a supervisor that starts anew needs it
    cell.context.discard(container, signal="SIGKILL", grace_s=1)
    if status is Status.STOPPED:
        raise StopRequested
    return status


def prefix_cache_state(cell: CellRun) -> Check:
    """What the prefix cache held when the first measured request came."""
    name = "prefix_cache_state"
    if not cell.server.plan.prefix_caching:
        return Check(name=name, verdict=Verdict.OK, message="prefix caching is off")
    if cell.prefix_cache_reset:
        message = "prefix caching is on; the cache was emptied before the first measured request"
        return Check(name=name, verdict=Verdict.OK, message=message)
    why = (
        "the supervisor was started anew, and does not know"
        if cell.prefix_cache_reset is None
        else "the server did not empty it"
    )
    message = f"prefix caching is on, and whether the cache was cold is open: {why}"
    return Check(name=name, verdict=Verdict.WARN, message=message)


def record(
    cell: CellRun,
    status: Status,
    reason: Reason,
    message: str,
    *,
    counts: RequestCounts | None = None,
    checks: tuple[Check, ...] = (),
    load_exit_code: int | None = None,
) -> Status:
    """Write `result.json` and the final event of this attempt."""
    cell.phase(Phase.RECORD)
    result = CellResult(
        cell=cell.plan.id,
        attempt=cell.attempt,
        server=cell.plan.server,
        server_attempt=cell.server.attempt,
        status=status,
        reason=reason,
        message=message,
        started_at=cell.started_at,
        ended_at=utc_now(),
        load_exit_code=load_exit_code,
        counts=counts,
        checks=checks,
    )
    conclude_cell(cell.context, result)
    warnings = [check.name for check in checks if check.verdict is Verdict.WARN]
    note = f" (warnings: {', '.join(warnings)})" if warnings else ""
    cell.context.log.say(f"cell {cell.plan.id}: {status} ({reason}) {message}{note}")
    return status


def _prepare(cell: CellRun) -> None:
    Path(cell.layout.exports).mkdir(parents=True, exist_ok=True)
    spec = for_attempt(cell.plan.container, cell.attempt)
    cell.context.write_json(cell.layout.load_spec, spec)
    cell.context.write_json(
        cell.layout.server_pointer,
        {
            "server": cell.server.plan.id,
            "attempt": cell.server.attempt,
            "path": str(cell.server.layout.root.relative_to(cell.context.layout.root)),
        },
    )


def _warm_up(cell: CellRun) -> None:
    """Unmeasured requests at the cell's concurrency, then settled counters, then the scrape."""
    context, server = cell.context, cell.server
    cell.phase(Phase.WARMUP)
    body = proof_body(server.plan)
    with ThreadPoolExecutor(max_workers=cell.plan.concurrency) as pool:
        waiting = [
            pool.submit(server.client.chat, body, cell.plan.timeout_s)
            for _ in range(max(server.plan.warmup.requests, cell.plan.concurrency))
            if server.plan.warmup.requests
        ]
        for future in waiting:
            future.result()
    if server.plan.prefix_caching:
        cell.prefix_cache_reset = server.client.reset_prefix_cache()
    context.stop.check()
    context.write(cell.layout.metrics_before, _settled_metrics(server))


def _settled_metrics(server: RunningServer) -> str:
    """Metrics once two scrapes agree on the counters: a late update must not leak in."""
    before = server.client.metrics()
    for _ in range(_SETTLE_TRIES):
        time.sleep(_SETTLE_S)
        after = server.client.metrics()
        if _counters(before) == _counters(after):
            return after
        before = after
    return before


def _counters(metrics: str) -> list[str]:
    return [line for line in metrics.splitlines() if line.startswith(_COUNTED)]


def _start_load(cell: CellRun) -> tuple[str, LogPump]:
    spec = for_attempt(cell.plan.container, cell.attempt)
    container = cell.context.engine.start(spec, cell.context.secrets_of(spec))
    cell.phase(Phase.LOAD)
    return container, cell.context.capture(container, cell.layout.load_log)


def _watch_load(cell: CellRun, container: str) -> LoadEnd:
    """Wait for the load to end; end it early when the server dies, time is up or a stop comes."""
    engine, spec = cell.context.engine, cell.plan.container
    deadline = time.monotonic() + cell.plan.timeout_s
    ending = _ending_begun(cell)
    try:
        while True:
            code = engine.wait(container, _POLL_S)
            ending = ending or _reason_to_end(cell, deadline, running=code is None)
            if ending is None and code is None:
                continue
            if code is None and ending is not None:
                _note_ending(cell, *ending)
                engine.stop(container, signal=spec.stop_signal, grace_s=spec.stop_grace_s)
                code = engine.state(container).exit_code
            return LoadEnd(code, *(ending or (None, "")))
    except ContainerGone as error:
        return LoadEnd(None, Reason.LOAD_FAILED, f"the load container vanished: {error.what}")
    except EngineError as error:
        return LoadEnd(None, Reason.ENGINE_ERROR, error.what)


def _reason_to_end(cell: CellRun, deadline: float, *, running: bool) -> tuple[Reason, str] | None:
    if not cell.server.alive():
        return Reason.SERVER_DIED, _obituary(cell.server)
    if running and cell.context.stop.requested:
        return Reason.STOPPED_BY_USER, "stopped while the load was running"
    if running and time.monotonic() > deadline:
        return Reason.LOAD_TIMED_OUT, f"not done within {cell.plan.timeout_s:.0f} s"
    return None


def _note_ending(cell: CellRun, reason: Reason, message: str) -> None:
    """Said before the signal: a supervisor that starts anew must know who ended the load."""
    cell.context.journal.append(
        EventKind.NOTE,
        cell=cell.plan.id,
        server=cell.plan.server,
        attempt=cell.attempt,
        reason=reason,
        message=message,
    )


def _ending_begun(cell: CellRun) -> tuple[Reason, str] | None:
    """What an earlier life of the supervisor noted before it ended this load."""
    for event in cell.context.journal.events:
        about = (event.kind, event.cell, event.attempt)
        if about == (EventKind.NOTE, cell.plan.id, cell.attempt) and event.reason is not None:
            return event.reason, event.message or ""
    return None


def _obituary(server: RunningServer) -> str:
    """Why a server is gone, in one line."""
    last = [line for line in server.pump.tail_lines(20) if line.strip()]
    said = f"; its last line: {last[-1].strip()[:200]}" if last else ""
    return f"server '{server.plan.id}' {server.ending()}{said}"


def _unreachable(cell: CellRun, error: ServerUnreachable) -> tuple[Reason, str]:
    if cell.server.gone():
        return Reason.SERVER_DIED, _obituary(cell.server)
    return Reason.LOAD_FAILED, f"warm-up failed: {error.what}"


def _scrape_after(cell: CellRun) -> str | None:
    """Metrics after the last request; None when the server no longer answers."""
    try:
        metrics = _settled_metrics(cell.server)
    except ServerUnreachable:
        return None
    cell.context.write(cell.layout.metrics_after, metrics)
    return metrics


def _read_text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None

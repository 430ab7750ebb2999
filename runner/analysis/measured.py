"""A stored run with its cells measured: what frames and reports are made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from runner.analysis.acceptance import AcceptancePool
from runner.analysis.counters import CounterPool, counted
from runner.analysis.export import written_by
from runner.analysis.judging import judge, refusal
from runner.analysis.measurements import (
    Measurement,
    acceptance_measurements,
    speed_measurements,
)
from runner.analysis.parallel import measure_records
from runner.analysis.records import FILE_NAME, read_records
from runner.analysis.requests import RequestColumns
from runner.analysis.speed import pool_columns
from runner.errors import ArtifactError
from runner.journal.replay import RunState, WorkState, derive, replay
from runner.models.layout import AttemptLayout, RunLayout
from runner.models.plan import CellPlan, Plan, ServerPlan
from runner.models.result import CellResult, Check, RequestCounts, Verdict
from runner.models.status import Reason, Status

_LAYOUT = RunLayout(PurePosixPath())
"""Paths relative to the run."""


@dataclass(frozen=True)
class MeasuredAttempt:
    """One attempt of a cell. Only an `included` one has figures: it succeeded, and no validity
    rule refuses it.

    `path` is the attempt's folder relative to the run; `number` is 0 for a cell that never
    started. `server_attempt` is the start of the server that it was measured on, `exit_code` that
    of the load. `categories` holds the requests of each category of the prompt set apart. `counted`
    is set where acceptance comes from the server's counters.
    """

    cell: CellPlan
    server: ServerPlan
    number: int
    path: str
    status: Status
    reason: Reason | None
    message: str
    server_attempt: int | None = None
    exit_code: int | None = None
    counts: RequestCounts | None = None
    checks: tuple[Check, ...] = ()
    included: bool = False
    pool: AcceptancePool = field(default_factory=AcceptancePool)
    categories: Mapping[str, AcceptancePool] = field(default_factory=dict)
    requests: RequestColumns = field(default_factory=RequestColumns)
    counted: CounterPool | None = None
    acceptance: tuple[Measurement, ...] = ()
    speed: tuple[Measurement, ...] = ()

    @property
    def warnings(self) -> tuple[Check, ...]:
        """Checks that passed with a remark."""
        return tuple(check for check in self.checks if check.verdict is Verdict.WARN)

    def figure(self, metric: str) -> Measurement | None:
        """The first figure of this metric; None where the cell has none of it."""
        return next((f for f in (*self.speed, *self.acceptance) if f.metric == metric), None)


@dataclass(frozen=True, eq=False)
class MeasuredRun:
    """A run as it lay on disk when it was measured; `attempts` in the order of the plan, then by
    number. Measured again, it is another object."""

    root: Path
    plan: Plan
    state: RunState
    attempts: tuple[MeasuredAttempt, ...]

    @property
    def included(self) -> tuple[MeasuredAttempt, ...]:
        """The attempts whose figures count: the newest success of each cell."""
        return tuple(attempt for attempt in self.attempts if attempt.included)

    @property
    def unavailable(self) -> tuple[MeasuredAttempt, ...]:
        """Cells of conditions that can't be had here: nothing failed, nothing was measured."""
        return tuple(one for one in self.attempts if one.status is Status.UNAVAILABLE)

    @property
    def left_out(self) -> tuple[MeasuredAttempt, ...]:
        """Every other attempt; kept, shown, in no figure."""
        return tuple(
            attempt
            for attempt in self.attempts
            if not attempt.included and attempt.status is not Status.UNAVAILABLE
        )

    def baseline_of(self, server: ServerPlan) -> str | None:
        """The server that this one is compared with: its baseline, or the stand-in where that is
        unavailable; None without one."""
        if server.baseline is None or server.baseline_fallback is None:
            return server.baseline
        gone = {one.server.id for one in self.unavailable}
        return server.baseline_fallback if server.baseline in gone else server.baseline


def measure_run(root: Path) -> MeasuredRun:
    """Read a run folder, finished or not, and measure the cells that succeeded.

    Raises:
        ArtifactError: plan, journal, a result or the records of a success can't be read, or
            the records are no longer those that the verdict was made on.
    """
    plan = _read_plan(root)
    state = derive(plan, replay(_journal(root)))
    attempts = [attempt for cell in plan.cells for attempt in _attempts(root, plan, cell, state)]
    return MeasuredRun(root=root, plan=plan, state=state, attempts=tuple(attempts))


def _read_plan(root: Path) -> Plan:
    path = root / _LAYOUT.plan
    try:
        return Plan.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ArtifactError(
            f"is not a run: plan.json can't be read ({error.strerror})",
            where=str(root),
            next_step="runner artifacts list",
        ) from error
    except ValidationError as error:
        raise ArtifactError(
            f"plan.json is not a plan that this version reads: {error.errors()[0]['msg']}",
            where=str(root),
            next_step="report with the version of runner that made the plan",
        ) from error


def _journal(root: Path) -> bytes:
    path = root / _LAYOUT.journal
    return path.read_bytes() if path.exists() else b""


def _attempts(root: Path, plan: Plan, cell: CellPlan, state: RunState) -> Iterator[MeasuredAttempt]:
    server = plan.server(cell.server)
    results = dict(_results(root, cell))
    newest_success = max(
        (number for number, result in results.items() if _succeeded(result)), default=None
    )
    work = state.cells[cell.id]
    for number, result in sorted(results.items()):
        if result is None:
            yield _unrecorded(cell, server, number, work)
        elif number == newest_success:
            yield _measured(root, cell, server, result)
        else:
            yield _left_out(cell, server, result)
    if not results:
        yield _unrecorded(cell, server, work.attempt, work)


def _succeeded(result: CellResult | None) -> bool:
    return result is not None and result.status is Status.SUCCEEDED


def _results(root: Path, cell: CellPlan) -> Iterator[tuple[int, CellResult | None]]:
    for folder in (root / _LAYOUT.cells / cell.id).glob("attempt-*"):
        number = folder.name.removeprefix("attempt-")
        if number.isdecimal():
            yield int(number), _read_result(folder / "result.json")


def _read_result(path: Path) -> CellResult | None:
    try:
        return CellResult.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise ArtifactError(
            "is not the result of a cell", where=str(path), next_step="runner artifacts verify RUN"
        ) from error


def _path(cell: CellPlan, number: int) -> str:
    return str(_LAYOUT.attempt(cell.id, number).root)


def _unrecorded(
    cell: CellPlan, server: ServerPlan, number: int, work: WorkState
) -> MeasuredAttempt:
    same = number == work.attempt
    status = work.status if same else Status.LOST
    message = (work.message if same else None) or {
        Status.PENDING: "never started",
        Status.RUNNING: f"in phase {work.phase}" if work.phase else "running",
    }.get(status, "left no result")
    return MeasuredAttempt(
        cell=cell,
        server=server,
        number=number,
        path=_path(cell, number) if number else "",
        status=status,
        reason=work.reason if same else None,
        message=message,
    )


def _left_out(cell: CellPlan, server: ServerPlan, result: CellResult) -> MeasuredAttempt:
    message = result.message
    if result.status is Status.SUCCEEDED:
        message = "a newer attempt succeeded too and is the one that counts"
    return MeasuredAttempt(
        cell=cell,
        server=server,
        number=result.attempt,
        path=_path(cell, result.attempt),
        status=result.status,
        reason=result.reason,
        message=message,
        exit_code=result.load_exit_code,
        counts=result.counts,
        checks=result.checks,
    )


def _measured(
    root: Path, cell: CellPlan, server: ServerPlan, result: CellResult
) -> MeasuredAttempt:
    layout = _LAYOUT.attempt(cell.id, result.attempt)
    exports = root / layout.exports
    version = written_by(exports)
    pool, requests, *_ = measure_records(exports / FILE_NAME, version)
    speed = pool_columns(requests)
    categories = _categories(cell, exports, version)
    if result.counts is not None and speed.requests != result.counts.good:
        raise ArtifactError(
            f"the records hold {speed.requests} good requests, the verdict on them saw "
            f"{result.counts.good}",
            where=str(root / layout.exports / FILE_NAME),
            next_step="runner artifacts verify RUN",
        )
    speculative = server.speculative is not None
    counters = None
    if speculative and not pool.requests:
        counters = _counters(root, layout)
    if counters is not None:
        acceptance = acceptance_measurements(counters.acceptance(pool), from_counters=True)
    else:
        acceptance = acceptance_measurements(pool.acceptance()) if speculative else ()
    checks = judge(root, cell, server, layout, result.server_attempt, requests, pool)
    refused = refusal(checks)
    if refused is not None:
        left_out = _left_out(cell, server, result)
        message = f"refused by the rule {refused.name}: {refused.message}"
        return replace(
            left_out, reason=refused.reason, message=message, checks=(*result.checks, *checks)
        )
    return MeasuredAttempt(
        cell=cell,
        server=server,
        number=result.attempt,
        path=str(layout.root),
        status=result.status,
        reason=result.reason,
        message=result.message,
        server_attempt=result.server_attempt,
        exit_code=result.load_exit_code,
        counts=result.counts,
        checks=(*result.checks, *checks),
        included=True,
        pool=pool,
        categories=categories,
        requests=requests,
        counted=counters,
        acceptance=acceptance,
        speed=speed_measurements(speed.speed()),
    )


def _categories(cell: CellPlan, exports: Path, version: str | None) -> Mapping[str, AcceptancePool]:
    """Requests by category of their rows; empty where the rows have none."""
    category_of = {row.id: row.category for row in cell.rows if row.category is not None}
    pools: dict[str, AcceptancePool] = {}
    for record in read_records(exports / FILE_NAME, version) if category_of else ():
        category = category_of.get(record.id)
        if category is not None:
            pools.setdefault(category, AcceptancePool()).add(record)
    return pools


def _counters(root: Path, layout: AttemptLayout) -> CounterPool | None:
    """The server's counters over a cell; None where a scrape is missing or tells nothing."""
    try:
        before = (root / layout.metrics_before).read_text(encoding="utf-8")
        after = (root / layout.metrics_after).read_text(encoding="utf-8")
    except OSError:
        return None
    return counted(before, after)

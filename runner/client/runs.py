"""Find runs on hosts and read where they stand: plan, journal, supervisor."""

from __future__ import annotations

import json
import os
import re
import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from runner.client.containers import Supervisor, supervisor_state
from runner.client.fleet import Answers, Fleet, Unreachable
from runner.errors import ArtifactError, FileMissing, HostError, UsageError
from runner.journal.replay import RunState, derive, replay
from runner.models.event import Event
from runner.models.host import Host
from runner.models.layout import RunLayout
from runner.models.plan import Plan
from runner.models.status import Reason, Status
from runner.transport.base import Connection

RUN_ID = re.compile(r"(\d{8}T\d{6}Z)-([a-z0-9][a-z0-9_.-]{0,62})-([0-9a-f]{4})")
"""`<UTC time>-<job>-<4 hex digits>`: sorts by time."""

_HINTS_KEPT = 500
_LISTED_MATCHES = 10


def new_run_id(job: str, now: datetime | None = None) -> str:
    """A run id: `20261201T101500Z-<job>-<4 hex digits>`, sortable by time."""
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    return f"{moment:%Y%m%dT%H%M%SZ}-{job}-{secrets.token_hex(2)}"


@dataclass(frozen=True)
class RunRef:
    """Where a run lives: host name, job, run id, absolute folder on the host."""

    host: str
    job: str
    run_id: str
    root: str

    @property
    def layout(self) -> RunLayout:
        """Paths of the run on its host."""
        return RunLayout(PurePosixPath(self.root))


@dataclass(frozen=True)
class RunView:
    """A run as it stands. `complete` means that its manifest is written.

    `plan` is None when the upload did not finish: nothing of such a run was ever started.
    """

    ref: RunRef
    plan: Plan | None
    state: RunState
    supervisor: Supervisor | None
    complete: bool
    next_step: str | None = None


def run_ref(host: Host, run_id: str) -> RunRef:
    """Where the run with this exact id lives on a host.

    Raises:
        UsageError: the text is not a run id.
    """
    match = RUN_ID.fullmatch(run_id)
    if match is None:
        raise UsageError(
            f"'{run_id}' is not a run id (20261201T101500Z-<job>-3f9a)", next_step="runner ps"
        )
    job = match.group(2)
    return RunRef(host.name, job, run_id, str(PurePosixPath(host.run_root) / job / run_id))


def list_runs(connection: Connection, host: Host, *, job: str | None = None) -> tuple[RunRef, ...]:
    """Runs on one host, oldest first. Other folders under the run root are left alone.

    Raises:
        HostError: the host does not answer.
    """
    jobs = (job,) if job is not None else connection.list(host.run_root)
    found: list[RunRef] = []
    for name in jobs:
        for run_id in connection.list(str(PurePosixPath(host.run_root) / name)):
            match = RUN_ID.fullmatch(run_id)
            if match and match.group(2) == name:
                found.append(run_ref(host, run_id))
    return tuple(sorted(found, key=lambda ref: ref.run_id))


@dataclass(frozen=True)
class Found:
    """A run, and the hosts that could not be asked while it was looked for."""

    ref: RunRef
    unreachable: tuple[Unreachable, ...] = ()


def find_run(fleet: Fleet, text: str, *, host: str | None = None) -> Found:
    """The run that a job name (its newest), a run id or a unique beginning of one means.

    Args:
        host: look on this host only.

    Raises:
        UsageError: nothing, or more than one run, has this name.
        HostError: nothing was found and a host could not be asked.
    """
    if RUN_ID.fullmatch(text) and host is None:
        ref = _by_hint(fleet, text)
        if ref is not None:
            return Found(ref)
    answers = fleet.ask(list_runs, (host,) if host else ())
    runs = [ref for refs in answers.given.values() for ref in refs]
    matches = [ref for ref in runs if ref.run_id == text]
    matches = matches or _newest([ref for ref in runs if ref.job == text])
    matches = matches or [ref for ref in runs if ref.run_id.startswith(text)]
    if not matches:
        raise _not_found(text, answers)
    if len(matches) > 1:
        listed = ", ".join(f"{ref.run_id} on {ref.host}" for ref in matches[:_LISTED_MATCHES])
        raise UsageError(
            f"'{text}' is the beginning of {len(matches)} runs: {listed}",
            next_step="give more of the run id",
        )
    remember(fleet, matches[0])
    return Found(matches[0], answers.unreachable)


def _newest(runs: list[RunRef]) -> list[RunRef]:
    return [max(runs, key=lambda ref: ref.run_id)] if runs else []


def _not_found(text: str, answers: Answers[tuple[RunRef, ...]]) -> Exception:
    unreachable = answers.unreachable
    if not unreachable:
        return UsageError(
            f"no run or job '{text}' on: {', '.join(answers.given)}",
            next_step="runner ps",
        )
    names = ", ".join(item.host for item in unreachable)
    details = "\n".join(f"  {item}" for item in unreachable)
    return HostError(
        f"no run or job '{text}' was found, and could not be looked for on: {names}\n{details}",
        next_step=f"runner hosts check {names.replace(',', '')}",
    )


def _by_hint(fleet: Fleet, run_id: str) -> RunRef | None:
    name = _hints(fleet.hints).get(run_id)
    if name is None or name not in fleet.inventory.hosts:
        return None
    ref = run_ref(fleet.host(name), run_id)
    return ref if fleet.connect(name).stat(ref.root) is not None else None


def remember(fleet: Fleet, ref: RunRef) -> None:
    """Note which host holds a run, so that next time only that one is asked.

    A hint that can't be written costs time only and is not an error.
    """
    hints = _hints(fleet.hints)
    if fleet.hints is None or hints.get(ref.run_id) == ref.host:
        return
    hints[ref.run_id] = ref.host
    kept = dict(sorted(hints.items())[-_HINTS_KEPT:])
    try:
        fleet.hints.parent.mkdir(parents=True, exist_ok=True)
        draft = fleet.hints.with_name(f"{fleet.hints.name}.{os.getpid()}")
        draft.write_text(json.dumps(kept, indent=0))
        draft.replace(fleet.hints)
    except OSError:
        return


def _hints(path: Path | None) -> dict[str, str]:
    try:
        data = json.loads(path.read_text()) if path else {}
    except (OSError, ValueError):
        return {}
    if not isinstance(data, dict):
        return {}
    return {str(run_id): str(host) for run_id, host in data.items()}


def read_plan(connection: Connection, ref: RunRef) -> Plan:
    """The plan of a run.

    Raises:
        FileMissing: the upload did not finish; nothing was started.
        ArtifactError: the plan is not one that this version reads.
    """
    try:
        data = connection.get(str(ref.layout.plan))
    except FileMissing as error:
        raise FileMissing(
            f"run {ref.run_id} has no plan.json: its upload did not finish and nothing was started",
            where=ref.host,
            next_step=f"runner prune {ref.run_id} --force, then submit again",
        ) from error
    try:
        return Plan.model_validate_json(data)
    except ValidationError as error:
        raise ArtifactError(
            f"plan.json of run {ref.run_id} is not a plan that this version reads: "
            f"{error.error_count()} problems, the first at {error.errors()[0]['loc']}",
            where=ref.host,
            next_step="use the version of runner that submitted it",
        ) from error


class RunReader:
    """Follows one run: reads the plan once and the journal by byte offset.

    `connection` may be replaced after `ConnectionLost`; reading goes on where it was.
    """

    def __init__(self, connection: Connection, host: Host, ref: RunRef):
        self.connection = connection
        self.ref = ref
        self._host = host
        self._plan: Plan | None = None
        self._events: list[Event] = []
        self._offset = 0

    @property
    def plan(self) -> Plan:
        """The plan, read on first use; errors as in `read_plan`."""
        if self._plan is None:
            self._plan = read_plan(self.connection, self.ref)
        return self._plan

    def state(self) -> RunState:
        """State by plan and journal alone. Raises a HostError when the host does not answer."""
        plan = self.plan
        try:
            data = self.connection.get(str(self.ref.layout.journal), offset=self._offset)
        except FileMissing:
            data = b""
        whole = data[: data.rfind(b"\n") + 1]
        self._events.extend(replay(whole))
        self._offset += len(whole)
        return derive(plan, self._events)

    def complete(self) -> bool:
        """True when the manifest is there."""
        return self.connection.stat(str(self.ref.layout.manifest)) is not None

    def view(self) -> RunView:
        """State by plan, journal and supervisor.

        A run whose journal is not final and whose supervisor is gone is LOST, with the reason and
        the next step; one that ended without its manifest has a next step too. Raises a HostError
        when the host does not answer.
        """
        try:
            plan = self.plan
        except FileMissing as error:
            return _never_uploaded(self.ref, error)
        state = self.state()
        if state.status.final and self.complete():
            return RunView(self.ref, plan, state, None, complete=True)
        supervisor = supervisor_state(self.connection, self._host, plan.supervisor.name)
        if supervisor in (Supervisor.ENDED, Supervisor.ABSENT):
            state = self.state()  # it may have ended between the two questions
            if not state.status.final:
                return _lost(self.ref, plan, state, supervisor)
            complete = self.complete()
            step = None if complete else f"runner resume {self.ref.run_id}"
            return RunView(self.ref, plan, state, supervisor, complete, step)
        return RunView(self.ref, plan, state, supervisor, complete=False)


def open_run(fleet: Fleet, text: str, *, host: str | None = None) -> tuple[RunReader, Found]:
    """Find a run and open a reader on its host; errors as in `find_run`."""
    found = find_run(fleet, text, host=host)
    name = found.ref.host
    return RunReader(fleet.connect(name), fleet.host(name), found.ref), found


def read_state(connection: Connection, host: Host, ref: RunRef) -> RunView:
    """Where one run stands now; see `RunReader.view`."""
    return RunReader(connection, host, ref).view()


def _never_uploaded(ref: RunRef, error: FileMissing) -> RunView:
    state = RunState(
        ref.run_id,
        ref.job,
        status=Status.LOST,
        reason=Reason.SUPERVISOR_LOST,
        message="the upload did not finish; nothing was started",
    )
    return RunView(ref, None, state, Supervisor.ABSENT, complete=False, next_step=error.next_step)


def _lost(ref: RunRef, plan: Plan, state: RunState, supervisor: Supervisor) -> RunView:
    what = (
        "its supervisor was never started, or its container is gone"
        if supervisor is Supervisor.ABSENT
        else "its supervisor ended before the run did"
    )
    lost = replace(state, status=Status.LOST, reason=Reason.SUPERVISOR_LOST, message=what)
    step = f"runner resume {ref.run_id}"
    return RunView(ref, plan, lost, supervisor, complete=False, next_step=step)

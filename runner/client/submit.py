"""Put a planned run on its host and start its supervisor; start it again when it is gone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from runner.client.containers import (
    Supervisor,
    live_runs,
    restart_supervisor,
    start_supervisor,
)
from runner.client.planning import Prepared
from runner.client.runs import RunReader, RunRef, RunView, run_ref
from runner.errors import HostError, RunnerError, SpecError, UsageError
from runner.models.evaluation import EvaluationJob
from runner.models.host import Host
from runner.models.job import MatrixJob
from runner.models.plan import Finding, FindingLevel, Plan
from runner.models.status import Status
from runner.transport.base import Connection

_SHORTEST_SECRET = 4


def refuse_errors(plan: Plan) -> None:
    """Stop when planning found an error.

    Raises:
        HostError: the host lacks something (engine, image, path, device).
        SpecError: the job asks for something that can't be.
    """
    errors = [finding for finding in plan.findings if finding.level is FindingLevel.ERROR]
    if not errors:
        return
    lines = [_line(finding) for finding in errors]
    keys = {*MatrixJob.model_fields, *EvaluationJob.model_fields}
    if all(re.split(r"[. ]", finding.subject)[0] in keys for finding in errors):
        raise SpecError("the plan has errors", where=plan.job, problems=lines)
    joined = "\n".join(lines)
    raise HostError(f"can't run this job\n{joined}", where=plan.host.name)


def _line(finding: Finding) -> str:
    step = f"\n    next: {finding.next_step}" if finding.next_step else ""
    return f"  {finding.subject}: {finding.message}{step}"


def refuse_crowd(connection: Connection, host: Host) -> None:
    """Stop when as many runs go on as the host's entry allows: they would measure each other.

    Raises:
        HostError: names the runs that go on.
        EngineError: the engine can't be asked.
    """
    going = live_runs(connection, host)
    if len(going) < host.limits.max_parallel:
        return
    raise HostError(
        f"no more than {host.limits.max_parallel} at a time (limits.max_parallel in hosts.yaml); "
        f"going on: {', '.join(going)}",
        where=host.name,
        next_step=f"runner status {going[0]} --watch && submit again, or: runner stop {going[0]}",
    )


def check_secret_values(secrets: Mapping[str, str]) -> None:
    """Refuse values that could not be kept out of logs, or not be handed over.

    Raises:
        UsageError: a value is too short to be masked, or holds a line break. Names no value.
    """
    for name, value in secrets.items():
        if len(value) < _SHORTEST_SECRET:
            raise UsageError(
                f"the secret '{name}' has fewer than {_SHORTEST_SECRET} characters: masking it "
                "would mask ordinary text",
                next_step=f"export a real value of {name}, or take it out of the environment",
            )
        if "\n" in value or "\r" in value:
            raise UsageError(
                f"the secret '{name}' holds a line break, which an environment file can't carry",
                next_step=f"export {name} without line breaks",
            )


def upload(connection: Connection, prepared: Prepared) -> RunRef:
    """Write the run folder: inputs and facts first, `plan.json` last and whole.

    A client that dies on the way leaves a folder without a plan, of which nothing is started.

    Raises:
        HostError: the host refused a file.
    """
    plan = prepared.plan
    ref = run_ref(prepared.host, plan.run_id)
    layout = ref.layout
    if connection.stat(str(layout.plan)) is not None:
        raise HostError(
            f"run {plan.run_id} is there already", where=ref.host, next_step="submit again"
        )
    for name, data in prepared.prompts.items():
        connection.put(str(layout.prompts(name)), data)
    for name, data in prepared.answers.items():
        connection.put(str(layout.answers(name)), data)
    connection.put(str(layout.host), prepared.facts.model_dump_json(indent=1).encode() + b"\n")
    connection.put(str(layout.plan), plan.model_dump_json(indent=1).encode() + b"\n")
    return ref


def submit(
    connection: Connection,
    prepared: Prepared,
    environ: Mapping[str, str],
    progress: Callable[[str], None] = lambda _: None,
) -> RunRef:
    """Upload a plan and start its supervisor; the run then goes on without this program.

    Args:
        environ: the caller's environment, which gives the values of secrets.
        progress: told each step.

    Raises:
        SpecError, HostError: the plan has errors; see `refuse_errors`.
        UsageError: a secret has no usable value. Nothing was uploaded.
        HostError: as many runs go on as the host allows. Nothing was uploaded.
        HostError: the host or its engine refused.
    """
    plan = prepared.plan
    refuse_errors(plan)
    values = prepared.secret_values(environ)
    check_secret_values(values)
    refuse_crowd(connection, prepared.host)
    progress(f"uploading plan and {len(prepared.prompts)} prompt sets to {plan.host.name}")
    ref = upload(connection, prepared)
    progress("starting the supervisor")
    try:
        start_supervisor(connection, prepared.host, plan, values)
    except HostError as error:
        if error.next_step is None:
            error.next_step = f"runner resume {plan.run_id}"
        raise
    return ref


def resume(
    reader: RunReader,
    host: Host,
    secret_values: Callable[[Plan], Mapping[str, str]],
) -> RunView:
    """Start the supervisor of a run that has none: it goes on where the journal ends.

    A container that exists is started again with the environment it has; without one it is made
    from the plan, and only then are secrets needed.

    Raises:
        UsageError: the run is final, or its supervisor runs, or a secret has no value.
        FileMissing: the upload never finished.
        HostError: the host or its engine refused.
    """
    plan = reader.plan
    view = reader.view()
    if view.state.status.final and view.state.status is not Status.LOST and view.complete:
        raise UsageError(
            f"run {plan.run_id} is {view.state.status}: there is nothing to resume",
            next_step=f"runner collect {plan.run_id}",
        )
    if view.supervisor is Supervisor.RUNNING:
        raise UsageError(
            f"run {plan.run_id} is {view.state.status}: its supervisor runs",
            next_step=f"runner status {plan.run_id} --watch",
        )
    if view.supervisor is Supervisor.ENDED:
        restart_supervisor(reader.connection, host, plan)
    elif view.supervisor is Supervisor.ABSENT:
        values = secret_values(plan)
        check_secret_values(values)
        start_supervisor(reader.connection, host, plan, values)
    else:
        raise _silent_engine(plan)
    return reader.view()


def _silent_engine(plan: Plan) -> RunnerError:
    return HostError(
        "the engine does not say whether the supervisor runs",
        where=plan.host.name,
        next_step=f"runner hosts check {plan.host.name}",
    )

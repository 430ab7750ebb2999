"""Commands that start and follow runs: submit, resume, logs."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.evaluation import (
    ComparatorOption,
    DatasetsOption,
    DrafterOption,
    DraftLengthOption,
    EvaluationOptions,
    MethodOption,
    ScopeOption,
    VerifierOption,
    asked_job,
    with_answers,
)
from runner.cli.failures import EXIT_INTERRUPTED
from runner.cli.options import (
    HostOption,
    JobArgument,
    OnHost,
    RunArgument,
    SetOption,
    examples,
    settings_of,
)
from runner.cli.output import emit, say
from runner.cli.runs import open_noted

if TYPE_CHECKING:
    from runner.client.fleet import Fleet
    from runner.client.logs import LogChoice
    from runner.client.runs import RunReader, RunRef


class Source(StrEnum):
    """Which logs of a run."""

    SUPERVISOR = "supervisor"
    SERVER = "server"
    LOAD = "load"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(
        epilog=examples(
            "runner submit jobs/quickstart.yaml --host local --follow",
            "runner submit jobs/full.yaml --host mi50-198 --set repeats=5",
            "runner submit --drafter /opt/models/my-eagle3 --host mi50-198",
        )
    )(submit)
    app.command(epilog=examples("runner resume 20261201T101500Z-quickstart-3f9a"))(resume)
    app.command(
        epilog=examples(
            "runner logs quickstart -f",
            "runner logs quickstart --source server --tail 50",
            "runner logs quickstart --cell ngram-chat-c1-r1 --since 10m",
        )
    )(logs)


def submit(
    context: typer.Context,
    host: HostOption,
    job: JobArgument = None,
    drafter: DrafterOption = None,
    scope: ScopeOption = None,
    datasets: DatasetsOption = None,
    verifier: VerifierOption = None,
    method: MethodOption = None,
    draft_length: DraftLengthOption = None,
    comparator: ComparatorOption = None,
    overrides: SetOption = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Show its log on stderr; exit code 1 unless it works."),
    ] = False,
) -> int:
    """Start a job on a host. The run id is all that stands on stdout."""
    from runner.client.planning import prepare_plan
    from runner.client.runs import RunReader, remember
    from runner.client.submit import submit as submit_run

    settings = settings_of(context)
    options = EvaluationOptions(
        drafter, scope, datasets, verifier, method, draft_length, comparator
    )
    with settings.fleet() as fleet:
        fleet.host(host)  # a wrong host is told before anything is read
        loaded, values = asked_job(job, overrides or (), options)
        sources = settings.plan_sources
        prepared = with_answers(
            job,
            values,
            loaded,
            lambda wanted: prepare_plan(fleet, wanted, host, say, sources=sources, launch=True),
        )
        plan = prepared.plan
        say(f"{plan.job} on {host}: {len(plan.cells)} cells, {len(plan.servers)} servers")
        note_findings(plan.findings)
        ref = submit_run(fleet.connect(host), prepared, os.environ, say)
        remember(fleet, ref)
        emit(ref.run_id)
        say_next(ref)
        if not follow:
            return 0
        return _follow(fleet, RunReader(fleet.connect(host), prepared.host, ref))


def say_next(ref: RunRef) -> None:
    """The three commands that come after a submit."""
    say(f"  runner logs {ref.run_id} -f")
    say(f"  runner status {ref.run_id}")
    say(f"  runner collect {ref.run_id}")


def note_findings(findings: tuple[object, ...]) -> None:
    """Warnings of a plan on stderr; its errors are told by whoever refuses it."""
    from runner.models.plan import Finding, FindingLevel

    for finding in findings:
        if isinstance(finding, Finding) and finding.level is FindingLevel.WARNING:
            step = f"\n  next: {finding.next_step}" if finding.next_step else ""
            say(f"warning: {finding.subject}: {finding.message}{step}")


def _follow(fleet: Fleet, reader: RunReader) -> int:
    from runner.client.logs import LogChoice
    from runner.models.status import Status

    code = _show(fleet, reader, LogChoice(follow=True), to_stderr=True)
    if code:
        return code
    state = reader.state()
    return 0 if state.status is Status.SUCCEEDED else 1


def resume(context: typer.Context, run: RunArgument, host: OnHost = None) -> None:
    """Start the supervisor of a LOST run again: it goes on where its journal ends."""
    from runner.client.planning import secrets_of_host
    from runner.client.submit import resume as resume_run

    with settings_of(context).fleet() as fleet:
        reader, found = open_noted(fleet, run, host)
        there = fleet.host(found.ref.host)
        view = resume_run(reader, there, lambda plan: secrets_of_host(plan, there, os.environ))
    say(f"run {found.ref.run_id} is {view.state.status} on {found.ref.host}")
    say_next(found.ref)


def logs(
    context: typer.Context,
    run: RunArgument,
    host: OnHost = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the run ends; Ctrl-C detaches.")
    ] = False,
    cell: Annotated[str | None, typer.Option("--cell", help="This cell only.")] = None,
    source: Annotated[
        Source | None,
        typer.Option("--source", help="Whose log; the supervisor's, or with --cell its load's."),
    ] = None,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=0, help="Begin with the last N lines.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Begin so long ago (10m) or at a time (ISO 8601).")
    ] = None,
) -> int:
    """Show the log of a run, live with -f. Several logs have their name in front of each line."""
    from runner.client.logs import LogChoice, LogSource

    choice = LogChoice(
        source=LogSource(source.value) if source else None,
        cell=cell,
        tail=tail,
        since=since,
        follow=follow,
    )
    with settings_of(context).fleet() as fleet:
        reader, _ = open_noted(fleet, run, host)
        return _show(fleet, reader, choice, to_stderr=False)


def _show(fleet: Fleet, reader: RunReader, choice: LogChoice, *, to_stderr: bool) -> int:
    """Print log lines; Ctrl-C leaves the run alone."""
    from runner.client.logs import LogReader

    host = reader.ref.host
    log = LogReader(
        reader,
        choice,
        reconnect=lambda: fleet.connect(host, fresh=True),
        note=lambda text: say(f"note: {text}"),
    )
    out = sys.stderr if to_stderr else sys.stdout
    try:
        for line in log.lines():
            prefix = f"{line.name:<{log.names}} | " if log.several else ""
            print(f"{prefix}{line.text}", file=out, flush=True)
    except KeyboardInterrupt:
        if choice.follow:
            say(f"detached: the run goes on\n  runner logs {reader.ref.run_id} -f")
        return EXIT_INTERRUPTED
    return 0

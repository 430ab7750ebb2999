"""Commands about runs: ps, status, logs, stop, prune."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.options import (
    Format,
    FormatOption,
    OnHost,
    RunArgument,
    Settings,
    examples,
    settings_of,
)
from runner.cli.output import emit_json, emit_table, human_time, say

if TYPE_CHECKING:
    from runner.client.fleet import Fleet, Unreachable
    from runner.client.runs import Found, RunReader
    from runner.client.status import RunRow


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(epilog=examples("runner ps", "runner ps --host local --format json"))(ps)
    app.command(
        epilog=examples("runner status quickstart", "runner status 20261201T101500Z --watch")
    )(status)
    app.command(
        epilog=examples(
            "runner stop quickstart", "runner stop 20261201T101500Z-quickstart-3f9a --no-wait"
        )
    )(stop)
    app.command(
        epilog=examples(
            "runner prune 20261201T101500Z-quickstart-3f9a", "runner prune --job quickstart --yes"
        )
    )(prune)


def open_noted(fleet: Fleet, run: str, host: str | None) -> tuple[RunReader, Found]:
    """Find and open a run; hosts that could not be asked are named on stderr."""
    from runner.client.runs import open_run

    reader, found = open_run(fleet, run, host=host)
    note_unreachable(found.unreachable)
    return reader, found


def note_unreachable(hosts: tuple[Unreachable, ...]) -> None:
    """One line on stderr for each host that did not answer."""
    for item in hosts:
        say(f"note: not asked: {item}")


def ps(
    context: typer.Context,
    host: OnHost = None,
    every: Annotated[bool, typer.Option("--all", "-a", help="Not only the newest 20.")] = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """List the runs on all hosts, newest first."""
    from runner.client.status import list_rows
    from runner.errors import HostError

    with settings_of(context).fleet() as fleet:
        answers = list_rows(fleet, (host,) if host else (), newest=None if every else 20)
    rows = [row for given in answers.given.values() for row in given]
    rows.sort(key=lambda row: row.run_id, reverse=True)
    note_unreachable(answers.unreachable)
    if form is Format.JSON:
        unreachable = [
            {"host": item.host, "error": item.error.what} for item in answers.unreachable
        ]
        emit_json({"runs": [row.__dict__ for row in rows], "unreachable": unreachable})
    elif rows:
        _runs_table(rows)
    else:
        say("no runs")
    if answers.unreachable and not answers.given:
        raise HostError("no host could be asked", next_step="runner hosts check")


def _runs_table(rows: list[RunRow]) -> None:
    from runner.client.status import elapsed_s

    emit_table(
        ("RUN", "HOST", "STATUS", "CELLS", "FAILED", "TIME"),
        (
            (
                row.run_id,
                row.host,
                row.status,
                f"{row.succeeded}/{row.cells}",
                row.failed or None,
                human_time(elapsed_s(row.started_at, row.ended_at)) if row.started_at else None,
            )
            for row in rows
        ),
    )
    for row in rows:
        if row.next_step:
            say(f"{row.run_id}: {row.message}\n  next: {row.next_step}")


def status(
    context: typer.Context,
    run: RunArgument,
    host: OnHost = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it again until the run is final.")
    ] = False,
    form: FormatOption = Format.TABLE,
) -> int:
    """Show where a run stands: servers, cells, reasons.

    With --watch the exit code is 1 unless the run succeeds.
    """
    from runner.cli.status_view import await_end, print_view, watch_run
    from runner.client.status import status_record
    from runner.models.status import Status

    with settings_of(context).fleet() as fleet:
        reader, found = open_noted(fleet, run, host)
        if watch:
            show = watch_run if form is Format.TABLE else await_end
            view = show(reader, lambda: fleet.connect(found.ref.host, fresh=True))
        else:
            view = reader.view()
    if form is Format.JSON:
        emit_json(status_record(view))
    else:
        print_view(view)
    return 1 if watch and view.state.status is not Status.SUCCEEDED else 0


def stop(
    context: typer.Context,
    run: RunArgument,
    host: OnHost = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Ask and return at once.")] = False,
    wait_s: Annotated[
        float, typer.Option("--timeout", min=0, help="Seconds to wait for the end.")
    ] = 180.0,
) -> None:
    """Ask a run to stop: what runs is ended and recorded, what is done is kept."""
    from runner.client.stop import stop_run

    with settings_of(context).fleet() as fleet:
        reader, found = open_noted(fleet, run, host)
        view = stop_run(reader, wait_s=None if no_wait else wait_s)
    run_id = found.ref.run_id
    if view.state.status.final:
        say(f"run {run_id} is {view.state.status}: {view.state.message or ''}".rstrip(": "))
        say(f"  runner collect {run_id}")
    else:
        say(f"run {run_id} was asked to stop\n  runner status {run_id} --watch")


def prune(
    context: typer.Context,
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="Run ids, unique beginnings, or --job."),
    ] = None,
    job: Annotated[
        str | None, typer.Option("--job", help="All runs of this job that were collected.")
    ] = None,
    host: OnHost = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also runs that were not collected, or are LOST.")
    ] = False,
) -> None:
    """Delete runs on their hosts, once they are collected complete. The store keeps its copy."""
    from runner.errors import UsageError

    if bool(runs) == bool(job):
        why = "not both" if runs else "so that it is clear what to delete"
        raise UsageError(f"give runs or --job, {why}", next_step="runner ps")
    settings = settings_of(context)
    with settings.fleet() as fleet:
        if job is not None:
            found = _runs_of_job(fleet, job, host)
        else:
            found = [open_noted(fleet, run, host) for run in dict.fromkeys(runs or ())]
        _prune_all(settings, fleet, found, yes=yes, force=force, lenient=job is not None)


def _runs_of_job(fleet: Fleet, job: str, host: str | None) -> list[tuple[RunReader, Found]]:
    from functools import partial

    from runner.client.runs import Found, RunReader, list_runs
    from runner.errors import UsageError

    answers = fleet.ask(partial(list_runs, job=job), (host,) if host else ())
    note_unreachable(answers.unreachable)
    refs = [ref for given in answers.given.values() for ref in given]
    if not refs:
        raise UsageError(f"no run of job '{job}'", next_step="runner ps")
    return [
        (RunReader(fleet.connect(ref.host), fleet.host(ref.host), ref), Found(ref)) for ref in refs
    ]


def _prune_all(
    settings: Settings,
    fleet: Fleet,
    found: list[tuple[RunReader, Found]],
    *,
    yes: bool,
    force: bool,
    lenient: bool,
) -> None:
    """`lenient` passes over runs that must stay; otherwise one of them stops everything."""
    from runner.artifacts.store import Store
    from runner.client.prune import check_prunable, prune_run
    from runner.errors import UsageError

    store = Store(settings.store)
    chosen = []
    for reader, item in found:
        view = reader.view()
        newest = store.newest(item.ref.run_id)
        try:
            check_prunable(
                view, collected=newest is not None and newest.record.complete, force=force
            )
        except UsageError as error:
            if not lenient:
                raise
            say(f"note: kept: {error.what}")
            continue
        chosen.append((reader, item.ref, view))
    for _, ref, _ in chosen:
        say(f"to delete: {ref.root} on {ref.host}")
    if chosen and not yes:
        if not sys.stdin.isatty():
            raise UsageError("nobody is there to say yes", next_step="add --yes")
        typer.confirm("Delete?", abort=True, err=True)
    for reader, ref, view in chosen:
        done = prune_run(reader, fleet.host(ref.host), view)
        say(
            f"deleted {ref.run_id} on {ref.host}: "
            f"{done.containers} containers, {done.networks} networks, its folder"
        )

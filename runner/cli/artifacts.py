"""Commands about what is on this machine: collect and the store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.options import Format, FormatOption, OnHost, Settings, examples, settings_of
from runner.cli.output import emit, emit_json, emit_table, human_bytes, say
from runner.cli.progress import byte_progress

if TYPE_CHECKING:
    from runner.artifacts.store import Store
    from runner.client.artifacts import Verified
    from runner.client.collect import CollectOutcome
    from runner.client.fleet import Fleet
    from runner.errors import RunnerError

app = typer.Typer(help="Collected runs.", no_args_is_help=True, rich_markup_mode=None)

StoredArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Job name (its newest run), run id or beginning.")
]
VersionOption = Annotated[
    int | None, typer.Option("--version", min=1, help="An older version; the newest if left out.")
]


def register(program: typer.Typer) -> None:
    """Add the commands that stand at the top."""
    program.command(
        epilog=examples("runner collect", "runner collect quickstart", "runner collect --host box")
    )(collect)


def collect(
    context: typer.Context,
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="All that have something new when left out."),
    ] = None,
    host: OnHost = None,
) -> None:
    """Copy runs into the store and verify them. Deletes nothing, here or there.

    Of a run that is still going, what is whole is taken. The folder of each run stands on stdout.
    """
    from runner.artifacts.store import Store

    settings = settings_of(context)
    store = Store(settings.store)
    failures: list[RunnerError] = []
    with settings.fleet() as fleet:
        if runs:
            _collect_named(fleet, store, runs, host, failures)
        else:
            _collect_new(fleet, store, host, failures)
    if failures:
        raise failures[-1]


def _collect_named(
    fleet: Fleet, store: Store, runs: list[str], host: str | None, failures: list[RunnerError]
) -> None:
    from runner.cli.runs import note_unreachable
    from runner.client.runs import find_run

    for run in dict.fromkeys(runs):
        found = find_run(fleet, run, host=host)
        note_unreachable(found.unreachable)
        _collect_one(fleet, store, found.ref.host, found.ref.run_id, found.ref.root, failures)


def _collect_new(fleet: Fleet, store: Store, host: str | None, failures: list[RunnerError]) -> None:
    """Every run of every host that the store does not hold complete."""
    from runner.cli.runs import note_unreachable
    from runner.client.collect import runs_on_host, with_news
    from runner.errors import HostError

    answers = fleet.ask(runs_on_host, (host,) if host else ())
    note_unreachable(answers.unreachable)
    if answers.unreachable and not answers.given:
        raise HostError("no host could be asked", next_step="runner hosts check")
    count = 0
    for name, there in answers.given.items():
        for run in with_news(there, store):
            count += 1
            _collect_one(fleet, store, name, run.run_id, run.run_dir, failures)
    if count == 0:
        say("nothing new")


def _collect_one(
    fleet: Fleet, store: Store, host: str, run_id: str, run_dir: str, failures: list[RunnerError]
) -> None:
    """One run that can't be collected does not keep the others from it."""
    from runner.client.collect import Progress, collect_run
    from runner.errors import RunnerError

    try:
        with byte_progress(run_id) as bar:

            def tell(progress: Progress) -> None:
                bar(progress.received_bytes, progress.total_bytes)

            outcome = collect_run(fleet.connect(host), fleet.host(host), run_dir, store, tell)
    except RunnerError as error:
        if failures:
            say(f"error: {failures.pop()}")
        failures.append(error)
        return
    _tell_outcome(outcome, run_id, host)


def _tell_outcome(outcome: CollectOutcome, run_id: str, host: str) -> None:
    record = outcome.run.record
    if not outcome.new:
        say(f"{run_id} on {host}: nothing new, version {record.version} is the newest")
    else:
        what = f"{len(record.files)} files, {human_bytes(outcome.received_bytes)} received"
        say(f"{run_id} on {host}: version {record.version}, {what}")
    if not outcome.complete:
        say(f"  the run is {record.status}: took what is complete; collect again when it ended")
        for path in outcome.left_out[:5]:
            say(f"  left out: {path}")
        if len(outcome.left_out) > 5:
            say(f"  left out: {len(outcome.left_out) - 5} more")
    emit(str(outcome.run.link))


@app.command(
    "list", epilog=examples("runner artifacts list", "runner artifacts list --format json")
)
def list_artifacts(context: typer.Context, form: FormatOption = Format.TABLE) -> None:
    """List the collected runs, newest first."""
    from runner.client.artifacts import list_runs

    rows = list_runs(_store(settings_of(context)))[::-1]
    if form is Format.JSON:
        emit_json({"runs": [{**row.__dict__, "path": str(row.path)} for row in rows]})
    elif rows:
        emit_table(
            ("RUN", "HOST", "STATUS", "COMPLETE", "VERSION", "FILES", "SIZE"),
            (
                (
                    row.run_id,
                    row.host,
                    row.status,
                    "yes" if row.complete else "no",
                    row.version,
                    row.files,
                    human_bytes(row.size_bytes),
                )
                for row in rows
            ),
        )
    else:
        say("nothing is collected yet\n  next: runner collect")


@app.command(epilog=examples("runner artifacts verify", "runner artifacts verify quickstart"))
def verify(
    context: typer.Context,
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]...", help="All of them when left out.")
    ] = None,
    form: FormatOption = Format.TABLE,
) -> int:
    """Read every byte of collected runs and compare. Exit code 5 when something differs."""
    from runner.client.artifacts import verify_runs
    from runner.errors import ArtifactError

    verified = verify_runs(_store(settings_of(context)), runs or ())
    if form is Format.JSON:
        emit_json({"runs": [{**item.__dict__, "problems": _problems(item)} for item in verified]})
    elif not verified:
        say("nothing is collected yet\n  next: runner collect")
    else:
        for item in verified:
            verdict = "damaged" if item.problems else "ok"
            kind = "complete" if item.complete else "not complete"
            emit(f"{item.run_id} version {item.version}: {verdict}, {item.files} files, {kind}")
            for problem in item.problems:
                emit(f"  {problem}")
    return ArtifactError.exit_code if any(item.problems for item in verified) else 0


def _problems(item: Verified) -> list[dict[str, str]]:
    return [
        {"kind": problem.kind.value, "path": problem.path, "message": str(problem)}
        for problem in item.problems
    ]


@app.command(
    epilog=examples(
        "runner artifacts show quickstart",
        "runner artifacts show quickstart cells --version 1",
    )
)
def show(
    context: typer.Context,
    run: StoredArgument,
    path: Annotated[str | None, typer.Argument(help="A file or folder of the run.")] = None,
    version: VersionOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show a version of a collected run, or a part of it: where it lies and its files."""
    from runner.client.artifacts import show as shown_part

    shown = shown_part(_store(settings_of(context)), run, version, path)
    record = shown.run.record
    if form is Format.JSON:
        whole = json.loads(record.model_dump_json(exclude={"files"}))
        files = [json.loads(entry.model_dump_json()) for entry in shown.entries]
        emit_json(
            {**whole, "path": str(shown.path), "versions": list(shown.versions), "files": files}
        )
        return
    emit(f"{record.run_id} from {record.host}: {record.status}, version {record.version}")
    emit(str(shown.path))
    emit(f"versions: {', '.join(str(number) for number in shown.versions)}")
    for left in record.left_out:
        emit(f"left out: {left}")
    if shown.entries:
        emit("")
        emit_table(
            ("FILE", "SIZE", "SHA-256"),
            ((item.path, human_bytes(item.size_bytes), item.sha256[:12]) for item in shown.entries),
        )


def _store(settings: Settings) -> Store:
    from runner.artifacts.store import Store

    return Store(Path(settings.store))

"""`runner plan`: everything that `submit` would do, shown and not done."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
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
from runner.cli.options import (
    Format,
    FormatOption,
    HostOption,
    JobArgument,
    SetOption,
    examples,
    settings_of,
)
from runner.cli.output import TABLE_WIDTH, emit, emit_json, emit_table, human_time, say

if TYPE_CHECKING:
    from runner.client.planning import Prepared
    from runner.models.container import ContainerSpec
    from runner.models.plan import Estimate, Plan


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command(
        epilog=examples(
            "runner plan jobs/quickstart.yaml --host local",
            "runner plan --drafter /opt/models/my-eagle3 --scope acceptance --host mi50-198",
            "runner plan jobs/full.yaml --host mi50-198 --set repeats=5 --format json",
            "runner plan jobs/full.yaml --host mi50-198 --facts host.json",
        )
    )(plan)


def plan(
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
    facts: Annotated[
        Path | None,
        typer.Option("--facts", help="Facts of the host from a file; the host is not asked."),
    ] = None,
    record_facts: Annotated[
        Path | None,
        typer.Option("--record-facts", help="Write what was looked up, for --facts elsewhere."),
    ] = None,
    form: FormatOption = Format.TABLE,
) -> int:
    """Show cells, commands, container options and findings of a job. Nothing is started.

    Exit code 4 or 3 when a finding would stop `submit`, 2 when a secret has no usable value here.
    """
    from runner.client.planning import prepare_plan
    from runner.client.submit import check_secret_values, refuse_errors
    from runner.errors import RunnerError

    settings = settings_of(context)
    options = EvaluationOptions(
        drafter, scope, datasets, verifier, method, draft_length, comparator
    )
    with settings.fleet() as fleet:
        fleet.host(host)  # a wrong host is told before anything is read
        loaded, values = asked_job(job, overrides or (), options)
        prepared = with_answers(
            job,
            values,
            loaded,
            lambda wanted: prepare_plan(
                fleet, wanted, host, say, facts_file=facts, sources=settings.plan_sources
            ),
        )
    if record_facts is not None:
        _write(record_facts, prepared.facts.model_dump_json(indent=1) + "\n")
    if form is Format.JSON:
        emit_json(json.loads(prepared.plan.model_dump_json()))
    else:
        print_plan(prepared)
    try:
        refuse_errors(prepared.plan)
    except RunnerError as error:
        say("submit would refuse this plan: see the errors among its findings")
        return error.exit_code
    try:
        check_secret_values(prepared.secret_values(os.environ))
    except RunnerError as error:
        say(f"submit would refuse this plan: {error}")
        return error.exit_code
    return 0


def _write(path: Path, text: str) -> None:
    from runner.errors import UsageError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"can't be written: {error.strerror}", where=str(path)) from error
    say(f"facts are in {path}")


def print_plan(prepared: Prepared) -> None:
    """The plan for a reader."""
    made = prepared.plan
    emit(f"{made.job} on {made.host.name}: {len(made.cells)} cells, {len(made.servers)} servers")
    emit(f"run directory: {made.run_dir}")
    _print_evaluation(made)
    _print_cells(made)
    for server in made.servers:
        _print_container(f"Server {server.id} ({server.served_name})", server.container)
    for cell in made.cells:
        _print_container(f"Load of {cell.id}", cell.container)
    _print_supervisor(prepared)
    _print_decisions(made)
    _print_findings(made)


def _print_evaluation(made: Plan) -> None:
    """What an evaluation measures, what of it can't be had, and what it will take."""
    for role, checkpoint in made.checkpoints.items():
        pinned = checkpoint.revision or "not pinned"
        emit(f"{role}: {checkpoint.name} at {pinned} ({checkpoint.revision_source})")
    for missing in made.unavailable:
        emit(f"unavailable: {missing.condition}: {missing.reason}")
    for server in made.servers:
        if server.optional:
            emit(f"tried: {server.id}: unavailable with the server's own words if it refuses")
        if server.instead_of:
            emit(f"stand-in: {server.id}: started only if {server.instead_of} is unavailable")
    if made.estimate is not None:
        _print_estimate(made.estimate)


def _print_estimate(estimate: Estimate) -> None:
    prompt = "" if estimate.prompt_tokens is None else f"{estimate.prompt_tokens:,} prompt tokens, "
    emit(
        f"estimate: {estimate.servers} server starts, {estimate.cells} cells, "
        f"{estimate.requests:,} requests, {prompt}"
        f"up to {estimate.output_tokens:,} output tokens"
    )
    time = (
        "time unknown" if estimate.hours is None else f"about {human_time(estimate.hours * 3600)}"
    )
    emit(f"  {time}: {estimate.hours_source}")


def _print_cells(made: Plan) -> None:
    emit("\nCells")
    if made.kind == "evaluation":
        # the id says server, mode, dataset, concurrency and repeat
        emit_table(
            ("#", "CELL", "ROWS", "REQUESTS", "TOKENS"),
            (
                (number, cell.id, len(cell.rows), cell.requests, cell.output_tokens)
                for number, cell in enumerate(made.cells, start=1)
            ),
        )
        return
    emit_table(
        ("#", "CELL", "SERVER", "PROMPTS", "CONCURRENCY", "REPEAT", "REQUESTS", "TOKENS"),
        (
            (
                number,
                cell.id,
                cell.server,
                cell.prompts,
                cell.concurrency,
                cell.repeat,
                cell.requests,
                cell.output_tokens,
            )
            for number, cell in enumerate(made.cells, start=1)
        ),
    )


def _print_container(title: str, spec: ContainerSpec) -> None:
    """The command of a container and the `docker run` line with every option of it."""
    from runner.engine.convert import docker_run_argv
    from runner.models.plan import for_attempt

    emit(f"\n{title}")
    emit("  command:")
    emit(_shell((*(spec.entrypoint or ()), *spec.command)))
    if spec.secret_environment:
        emit(f"  secrets: {', '.join(f'{name}=***' for name in spec.secret_environment)}")
    emit("  container of the first attempt:")
    emit(_shell(docker_run_argv(for_attempt(spec, 1))))


def _print_supervisor(prepared: Prepared) -> None:
    from runner.client.containers import supervisor_argv

    emit("\nSupervisor")
    emit(_shell(supervisor_argv(prepared.host, prepared.plan)))


def _shell(argv: Sequence[str]) -> str:
    """A command line to read and to paste, broken where it would be wider than a table."""
    lines, line = [], "   "
    for word in map(shlex.quote, argv):
        if len(line) + 1 + len(word) > TABLE_WIDTH - 2 and line.strip():
            lines.append(f"{line} \\")
            line = "     "
        line += f" {word}"
    return "\n".join([*lines, line])


def _print_decisions(made: Plan) -> None:
    if not made.decisions:
        return
    emit("\nDecisions")
    emit_table(
        ("KEY", "VALUE", "ORIGIN", "SOURCE"),
        ((item.key, item.value, item.origin.value, item.source) for item in made.decisions),
    )


def _print_findings(made: Plan) -> None:
    emit(f"\nFindings: {len(made.findings) or 'none'}")
    for finding in made.findings:
        emit(f"  {finding.level.value}: {finding.subject}: {finding.message}")
        if finding.next_step:
            emit(f"    next: {finding.next_step}")

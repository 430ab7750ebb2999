"""Commands that read stored runs: report and compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from runner.cli.options import Format, FormatOption, examples, settings_of
from runner.cli.output import emit, emit_json, emit_table, say

if TYPE_CHECKING:
    from runner.analysis.comparison import Change, RunComparison

_EXIT_REGRESSION = 1

RunArgument = Annotated[str, typer.Argument(help="Job name (its newest run), run id or beginning.")]


def register(program: typer.Typer) -> None:
    """Add the commands that stand at the top."""
    program.command(
        epilog=examples(
            "runner report quickstart",
            "runner report quickstart --out card",
            "runner report quickstart --share --out to-publish",
        )
    )(report)
    program.command(
        epilog=examples(
            "runner compare 20261130T2010 quickstart",
            "runner compare OLD NEW --limit 0.02 --allow image.server",
        )
    )(compare)


def report(
    context: typer.Context,
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Job name (its newest run), run id or beginning."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write to, with a folder for each of several runs; report/ beside the "
            "run if left out."
        ),
    ] = None,
    share: Annotated[
        bool,
        typer.Option(
            "--share",
            help="With the raw files, for others: without prompts and exports that a licence "
            "keeps private. Needs --out.",
        ),
    ] = False,
) -> None:
    """Write the report of collected runs: README.md, page.html, plots, tables, summary.json.

    The path of each README stands on stdout.
    """
    from runner.artifacts.store import Store
    from runner.client.report import report_run, share_run
    from runner.errors import UsageError

    if share and out is None:
        raise UsageError("--share needs a folder to fill", next_step="add --out FOLDER")
    store = Store(settings_of(context).store)
    stored = [store.find(run) for run in runs]
    for one in stored:
        folder = out / one.run_id if out is not None and len(stored) > 1 else out
        if share and folder is not None:
            written, left_out = share_run(one.link, folder)
            say(f"{len(left_out)} files left out, see {folder / 'LEFT_OUT.md'}")
        else:
            written = report_run(one.link, folder)
        say(written.verdict)
        emit(str(written.readme))


def compare(
    context: typer.Context,
    before: Annotated[
        str,
        typer.Argument(metavar="RUN_A", help="The run to compare with: job, run id or beginning."),
    ],
    after: Annotated[str, typer.Argument(metavar="RUN_B", help="The newer run.")],
    limit: Annotated[
        float, typer.Option(min=0, max=1, help="A figure that falls by more is a regression.")
    ] = 0.05,
    allow: Annotated[
        list[str] | None,
        typer.Option(help="A difference besides the drafter that does not matter here."),
    ] = None,
    form: FormatOption = Format.TABLE,
) -> int:
    """Show what changed from RUN_A to RUN_B, with 95 % intervals; exit code 1 on a regression.

    Runs that differ in more than the drafter are refused, and the difference is named.
    """
    from runner.artifacts.store import Store
    from runner.client.report import compare_stored

    store = Store(settings_of(context).store)
    found = compare_stored(
        store.find(before).link, store.find(after).link, limit=limit, allowed=allow or ()
    )
    if form is Format.JSON:
        emit_json(_record(found, limit))
    else:
        _print(found, limit)
    return _EXIT_REGRESSION if found.regressions else 0


def _print(found: RunComparison, limit: float) -> None:
    emit_table(
        ("CONFIGURATION", "PROMPTS", "LOAD", "FIGURE", "BEFORE", "AFTER", "RATIO", "SAYS"),
        map(_row, found.changes),
    )
    for one in found.allowed:
        say(f"warning: {one.key} differs: {one.before} against {one.after}")
    for side, subjects in (("A", found.only_before), ("B", found.only_after)):
        if subjects:
            say(f"only in RUN_{side}: {', '.join(subjects)}")
    count = len(found.regressions)
    noun = "figure" if count == 1 else "figures"
    say(f"{count} {noun} fell by more than {100 * limit:g} %")


def _row(change: Change) -> tuple[object, ...]:
    ratio, interval = change.ratio, change.ratio.interval
    words = f"{ratio.value:.3f}" if ratio.value is not None else None
    if interval is not None:
        words = f"{words} [{interval.low:.3f}, {interval.high:.3f}]"
    return (
        change.configuration,
        change.prompts,
        change.concurrency,
        change.metric,
        f"{change.before:,.2f}",
        f"{change.after:,.2f}",
        words,
        "REGRESSION" if change.regression else ratio.judgement,
    )


def _record(found: RunComparison, limit: float) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "limit": limit,
        "regressions": len(found.regressions),
        "changes": [{**asdict(change), "says": change.ratio.judgement} for change in found.changes],
        "only_before": list(found.only_before),
        "only_after": list(found.only_after),
        "allowed": [asdict(one) for one in found.allowed],
    }

"""`runner datasets`: what can be measured, and getting it before a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from runner.cli.options import Format, FormatOption, examples, settings_of
from runner.cli.output import emit, emit_json, emit_table, say

app = typer.Typer(help="Datasets of evaluations.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list", epilog=examples("runner datasets list", "runner datasets list --format json"))
def list_datasets(context: typer.Context, form: FormatOption = Format.TABLE) -> None:
    """Show the catalogue, and what of it is here."""
    from runner.client.datasets import offered
    from runner.datasets.cache import DatasetCache

    sets = offered(DatasetCache(settings_of(context).plan_sources.datasets))
    if form is Format.JSON:
        emit_json(
            [
                {
                    "name": item.name,
                    "title": item.title,
                    "kind": item.kind.value,
                    "source": item.source,
                    "licence": item.licence,
                    "restricted": item.restricted,
                    "fetched": json.loads(item.record.model_dump_json()) if item.record else None,
                }
                for item in sets
            ]
        )
        return
    emit_table(
        ("NAME", "ROWS", "FROM", "LICENCE", "WHAT"),
        (
            (
                item.name,
                item.record.rows if item.record else None,
                item.kind.value,
                f"{item.licence}{' !' if item.restricted else ''}",
                item.title,
            )
            for item in sets
        ),
    )
    say("! its prompts must not be passed on; without ROWS: not fetched")


@app.command(
    epilog=examples(
        "runner datasets fetch humaneval mt-bench",
        "runner datasets fetch --defaults",
        "runner datasets fetch speed-bench-qualitative --from prepared.jsonl",
    )
)
def fetch(
    context: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...")] = None,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Those that an evaluation takes by default.")
    ] = False,
    brought: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Rows that you have: a file in the layout of the source."),
    ] = None,
) -> int:
    """Get datasets ahead of a run; what is here already is fetched anew."""
    from runner.client.datasets import fetch as fetch_one
    from runner.datasets.cache import DatasetCache
    from runner.errors import RunnerError, UsageError
    from runner.plan.evaluation_sets import DEFAULT_DATASETS

    wanted = list(names or ())
    if defaults:
        wanted += [name for sets in DEFAULT_DATASETS.values() for name in sets]
    wanted = list(dict.fromkeys(wanted))
    if not wanted or (brought and len(wanted) != 1):
        raise UsageError(
            "name the datasets to fetch, or --defaults" if not wanted else "--from is for one set",
            next_step="runner datasets list",
        )
    cache = DatasetCache(settings_of(context).plan_sources.datasets)
    worst = 0
    for name in wanted:
        try:
            record = fetch_one(cache, name, say, brought or ())
        except RunnerError as error:
            if len(wanted) == 1:
                raise
            say(str(error))
            worst = error.exit_code
            continue
        emit(f"{name}: {record.rows} rows, {record.requests} requests, {record.licence}")
    return worst


@app.command(
    epilog=examples("runner datasets show humaneval", "runner datasets show my.jsonl --rows 5")
)
def show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Of the catalogue, or a JSONL file.")],
    rows: Annotated[int, typer.Option("--rows", min=0, help="How many rows to show.")] = 2,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show where a dataset comes from, what pins it, and its first rows."""
    from runner.client.datasets import load_dataset
    from runner.datasets.cache import DatasetCache

    cache = DatasetCache(settings_of(context).plan_sources.datasets)
    dataset = load_dataset(cache, name, fetch=False, progress=say)
    shown = dataset.rows.rows[:rows]
    if form is Format.JSON:
        emit_json(
            {
                **json.loads(dataset.record.model_dump_json()),
                "first": [
                    {"id": row.id, "turns": row.turns, "category": row.category,
                     "content": row.content}
                    for row in shown
                ],
            }
        )  # fmt: skip
        return
    for key, value in dataset.record.model_dump(mode="json").items():
        if value not in (None, "", {}):
            emit(f"{key}: {value}")
    for row in shown:
        emit(f"\n{row.id}{f' ({row.category})' if row.category else ''}")
        texts = row.content if isinstance(row.content, list) else [row.content]
        for text in texts:
            emit(f"  {str(text)[:400]}")

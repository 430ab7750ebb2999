"""The command line: commands put together, errors turned into one message and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from runner import __version__
from runner.cli import artifacts, datasets, hosts, images, models, plan, report, runs, submit
from runner.cli.failures import Program, reported
from runner.cli.options import Settings, examples

app = typer.Typer(
    name="runner",
    cls=Program,
    help="Speculative decoding measured on machines that people own: plan, run, collect, report.",
    epilog=examples(
        "runner hosts check",
        "runner plan jobs/quickstart.yaml --host local",
        "runner plan --drafter /opt/models/my-drafter --host mi50-198",
        "runner submit jobs/quickstart.yaml --host local --follow",
        "runner logs quickstart -f",
        "runner collect && runner report quickstart",
        "runner compare 20261130T2010 quickstart",
    ),
    no_args_is_help=True,
    rich_markup_mode=None,  # help text stays plain, and starts without loading rich
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(value: bool) -> None:
    if value:
        print(f"runner {__version__}")
        raise typer.Exit


@app.callback()
def settings(
    context: typer.Context,
    hosts_file: Annotated[
        Path, typer.Option(envvar="RUNNER_HOSTS", help="Inventory of hosts.")
    ] = Path("hosts.yaml"),
    store: Annotated[
        Path, typer.Option(envvar="RUNNER_STORE", help="Where collected runs are kept.")
    ] = Path("artifacts"),
    lock: Annotated[
        Path | None,
        typer.Option(
            "--lock-file", envvar="RUNNER_LOCK", help="Digests of images (images/lock.yaml)."
        ),
    ] = None,
    datasets_folder: Annotated[
        Path | None,
        typer.Option(
            "--datasets-folder",
            envvar="RUNNER_DATASETS",
            help="Where fetched datasets are kept (~/.cache/runner/datasets).",
        ),
    ] = None,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Options that every command shares; they stand before the command."""
    context.obj = Settings(hosts_file=hosts_file, store=store, lock=lock, datasets=datasets_folder)


for module in (plan, submit, runs, artifacts, report):
    module.register(app)
app.add_typer(hosts.app, name="hosts")
app.add_typer(images.app, name="images")
app.add_typer(models.app, name="models")
app.add_typer(datasets.app, name="datasets")
app.add_typer(artifacts.app, name="artifacts")


def _open_closed_streams() -> None:
    """A stream that the caller closed (`>&-`) is None, and `print` would take stdout for it."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns its exit code and never raises."""
    _open_closed_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    return reported(lambda: app(args=given, prog_name="runner", standalone_mode=False))

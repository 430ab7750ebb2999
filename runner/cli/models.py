"""`runner models`: make the small model that tests and the quickstart use."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from runner.cli.options import HostOption, examples, settings_of
from runner.cli.output import emit, say
from runner.cli.progress import build_progress

app = typer.Typer(help="Models on a host.", no_args_is_help=True, rich_markup_mode=None)


class Size(StrEnum):
    """Sizes of the model."""

    TINY = "tiny"
    SMALL = "small"


@app.callback()
def _group() -> None:
    """Models on a host."""


@app.command(
    epilog=examples(
        "runner models tiny --host local",
        "runner models tiny --host local --target /var/lib/runner/models/small --size small",
    )
)
def tiny(
    context: typer.Context,
    host: HostOption,
    target: Annotated[
        str, typer.Option(help="Absolute path on the host.")
    ] = "/var/lib/runner/models/tiny",
    size: Annotated[
        Size, typer.Option(help="tiny: trained for a minute; small: random, for timing.")
    ] = Size.TINY,
) -> None:
    """Make a tiny model on a host, in its server image. A whole one is left as it is."""
    from runner.client.images import make_model
    from runner.images.tiny import TinySize

    settings = settings_of(context)
    with settings.fleet() as fleet, build_progress() as progress:
        made = make_model(fleet, host, settings.image_files, target, TinySize(size.value), progress)
    say(f"{'made' if made else 'kept'} {target} on {host}")
    emit(target)

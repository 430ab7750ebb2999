"""`runner models`: make the small models that tests and the quickstart use."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.options import HostOption, examples, settings_of
from runner.cli.output import emit, say
from runner.cli.progress import build_progress

if TYPE_CHECKING:
    from runner.images.tiny import Recipe

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
    from runner.images.tiny import TinySize, tiny_recipe

    _make(context, host, target, tiny_recipe(TinySize(size.value)))


@app.command(
    epilog=examples(
        "runner models eagle3 --host local",
        "runner models eagle3 --host local --untrained --target /var/lib/runner/models/untrained",
    )
)
def eagle3(
    context: typer.Context,
    host: HostOption,
    verifier: Annotated[
        str, typer.Option(help="The tiny model that it drafts for: a folder on the host.")
    ] = "/var/lib/runner/models/tiny",
    target: Annotated[
        str, typer.Option(help="Absolute path on the host.")
    ] = "/var/lib/runner/models/tiny-eagle3",
    untrained: Annotated[
        bool, typer.Option("--untrained", help="Random weights: no draft is ever accepted.")
    ] = False,
) -> None:
    """Make a tiny EAGLE3 drafter in the speculators format; it takes two to four minutes."""
    from runner.images.tiny import eagle3_recipe

    _make(context, host, target, eagle3_recipe(verifier, untrained=untrained))


@app.command(
    epilog=examples("runner models mtp --host local --target /var/lib/runner/models/tiny-mtp")
)
def mtp(
    context: typer.Context,
    host: HostOption,
    llama: Annotated[
        str, typer.Option("--from", help="The tiny model that it is made from.")
    ] = "/var/lib/runner/models/tiny",
    target: Annotated[
        str, typer.Option(help="Absolute path on the host.")
    ] = "/var/lib/runner/models/tiny-mtp",
) -> None:
    """Make a tiny model whose configuration claims an MTP head that its weights do not have."""
    from runner.images.tiny import mtp_recipe

    _make(context, host, target, mtp_recipe(llama))


def _make(context: typer.Context, host: str, target: str, recipe: Recipe) -> None:
    from runner.client.images import make_model

    settings = settings_of(context)
    with settings.fleet() as fleet, build_progress() as progress:
        made = make_model(fleet, host, settings.image_files, target, recipe, progress)
    say(f"{'made' if made else 'kept'} {target} on {host}")
    emit(target)

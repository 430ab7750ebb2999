"""`runner images`: build images on a host and show which ones it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from runner.cli.options import Format, FormatOption, HostOption, examples, settings_of
from runner.cli.output import emit, emit_json, emit_table, human_bytes, say
from runner.cli.progress import build_progress

app = typer.Typer(help="Images on a host.", no_args_is_help=True, rich_markup_mode=None)


@app.command(
    epilog=examples(
        "runner images build --host local",
        "runner images build vllm-cpu --host local --base python:3.11-slim-bookworm",
        "runner images build --host mi50-198 --bootstrap-base --ca-bundle ca.pem --wheels wheels/",
    )
)
def build(
    context: typer.Context,
    host: HostOption,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="All that the host uses when left out."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(envvar="RUNNER_BASE_IMAGE", help="Base image in place of the recipe's."),
    ] = None,
    bootstrap_base: Annotated[
        bool, typer.Option("--bootstrap-base", help="Make the base image there with debootstrap.")
    ] = False,
    ca_bundle: Annotated[
        Path | None,
        typer.Option(envvar="RUNNER_CA_BUNDLE", help="PEM file of certificates to trust as well."),
    ] = None,
    wheels: Annotated[
        Path | None,
        typer.Option(envvar="RUNNER_WHEELS", help="Folder of wheels to use before any index."),
    ] = None,
    pip_index: Annotated[
        str | None,
        typer.Option(envvar="RUNNER_PIP_INDEX", help="Package index; not recorded."),
    ] = None,
    pip_extra_index: Annotated[
        str | None,
        typer.Option(envvar="RUNNER_PIP_EXTRA_INDEX", help="One more index; not recorded."),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Option("--build-arg", metavar="KEY=VALUE", help="Replace a build argument."),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Build every layer again.")] = False,
) -> None:
    """Build images with the host's own engine and note their digests in the lock."""
    from runner.client.images import build_images
    from runner.images.build import BuildOptions

    options = BuildOptions(
        base=base,
        bootstrap_base=bootstrap_base,
        ca_bundle=ca_bundle,
        wheels=wheels,
        pip_index=pip_index,
        pip_extra_index=pip_extra_index,
        arguments=_pairs(arguments or []),
        no_cache=no_cache,
    )
    settings = settings_of(context)
    with settings.fleet() as fleet, build_progress() as progress:
        for image in build_images(
            fleet, host, names or (), settings.image_files, options, progress
        ):
            say(f"built {image.reference} on {host}: {human_bytes(image.size_bytes)}")
            emit(image.digest)


def _pairs(texts: list[str]) -> dict[str, str]:
    from runner.errors import UsageError

    for text in texts:
        if not text.partition("=")[0].strip() or "=" not in text:
            raise UsageError(
                f"--build-arg '{text}' is not KEY=VALUE",
                next_step="runner images build NAME --host H --build-arg VLLM_VERSION=0.11.0",
            )
    return {text.partition("=")[0]: text.partition("=")[2] for text in texts}


@app.command("list", epilog=examples("runner images list --host local"))
def list_images(
    context: typer.Context, host: HostOption, form: FormatOption = Format.TABLE
) -> None:
    """Show the image of each role on a host: what the lock says and what is there."""
    from runner.client.images import images_of_host

    settings = settings_of(context)
    with settings.fleet() as fleet:
        states = images_of_host(fleet, host, settings.image_files)
    if form is Format.JSON:
        emit_json(
            {
                "host": host,
                "images": [
                    {
                        "role": state.role.value,
                        "reference": state.reference,
                        "state": state.state,
                        "locked": json.loads(state.locked.model_dump_json())
                        if state.locked
                        else None,
                    }
                    for state in states
                ],
            }
        )
        return
    emit_table(
        ("ROLE", "IMAGE", "STATE", "DIGEST", "SIZE", "BUILT"),
        (
            (
                state.role.value,
                state.reference,
                state.state,
                state.locked.digest[7:19] if state.locked else None,
                human_bytes(state.locked.size_bytes) if state.locked else None,
                state.locked.built_at[:19] if state.locked else None,
            )
            for state in states
        ),
    )

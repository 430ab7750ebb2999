"""`runner images`: build images on a host and show which ones it has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.options import Format, FormatOption, HostOption, examples, settings_of
from runner.cli.output import emit, emit_json, emit_table, human_bytes, say
from runner.cli.progress import build_progress

if TYPE_CHECKING:
    from runner.client.fleet import Fleet
    from runner.client.images import ImageFiles
    from runner.models.capability import ImageCapabilities

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
        _probe_server(fleet, host, settings.image_files, progress)


def _probe_server(
    fleet: Fleet, host: str, files: ImageFiles, progress: Callable[[str], None]
) -> None:
    """Learn at once what the host's server image can do; planning rests on it."""
    from runner.client.capabilities import probe_host
    from runner.errors import ImageMissing, RunnerError

    try:
        image, found = probe_host(fleet, host, files, again=False, progress=progress)
    except ImageMissing:
        return
    except RunnerError as error:
        say(f"warning: the server image could not be asked what it can do: {error}")
        return
    told = f"vLLM {found.vllm_version}" if found.problem is None else found.problem
    say(f"{image.reference} on {host}: {told}")


@app.command(
    epilog=examples(
        "runner images probe --host local", "runner images probe --host local --format json"
    )
)
def probe(
    context: typer.Context,
    host: HostOption,
    again: Annotated[bool, typer.Option("--again", help="Ask it even if it is known.")] = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Ask the server image of a host what it can do, and keep the answer for planning."""
    from runner.client.capabilities import probe_host

    settings = settings_of(context)
    with settings.fleet() as fleet:
        image, found = probe_host(fleet, host, settings.image_files, again=again, progress=say)
    if form is Format.JSON:
        emit_json({"host": host, "image": image.reference, **json.loads(found.model_dump_json())})
        return
    emit_table(("WHAT", image.reference), _told(found))


def _told(found: ImageCapabilities) -> list[tuple[str, str]]:
    """Capabilities in words."""

    def told(value: bool | None) -> str:
        return "unknown" if value is None else "yes" if value else "no"

    adaptive = "enable_adaptive_verification" in found.speculative_fields
    return [
        *([("problem", found.problem)] if found.problem else []),
        ("vLLM", found.vllm_version or "unknown"),
        ("torch", found.torch_version or "unknown"),
        ("architectures", ", ".join(found.architectures) or "unknown"),
        ("flags", str(len(found.flags))),
        ("per-request acceptance", told(found.knows_flag("--per-request-spec-decode-metrics"))),
        ("adaptive verification", told(adaptive if found.speculative_fields else None)),
        ("second model runner", told(found.model_runner_v2)),
        ("methods", ", ".join(found.methods) or "unknown"),
    ]


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

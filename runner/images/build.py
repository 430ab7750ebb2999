"""Build an image on a host: the context is streamed to the host's own engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from runner.errors import EngineError, ImageMissing, SpecError, UsageError
from runner.images.bootstrap import base_reference, bootstrap_base
from runner.images.catalogue import (
    Catalogue,
    ImageChoice,
    build_arguments,
    effective_versions,
    image_reference,
)
from runner.images.command import Progress, engine_argv, follow, inspect
from runner.images.context import content_sha256, context_entries, tar_stream
from runner.models.host import Host
from runner.models.image import ImageRecipe, LockedImage
from runner.transport.base import Connection

PULL_TIMEOUT_S = 1800.0


@dataclass(frozen=True)
class BuildOptions:
    """How to build. Index addresses are passed as build arguments and recorded nowhere.

    `arguments` override the recipe's build arguments (`VLLM_VERSION=…`). `base` wins over
    the recipe's; `bootstrap_base` makes one on the host instead.
    """

    base: str | None = None
    bootstrap_base: bool = False
    ca_bundle: Path | None = None
    wheels: Path | None = None
    pip_index: str | None = None
    pip_extra_index: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    no_cache: bool = False
    network: str | None = None

    def __post_init__(self) -> None:
        if self.base and self.bootstrap_base:
            raise UsageError(
                "give --base or --bootstrap-base, not both",
                next_step="runner images build --help",
            )


def build_image(
    connection: Connection,
    host: Host,
    catalogue: Catalogue,
    recipe: ImageRecipe,
    options: BuildOptions,
    progress: Progress,
) -> LockedImage:
    """Build `recipe` on the host as `runner/<name>:<version>`; lines of output go to `progress`.

    Raises:
        EngineError: no base image, or the build failed; carries the build's last lines.
        SpecError, UsageError: something to send is missing or not what it should be.
    """
    entries = context_entries(
        catalogue.folder(recipe),
        source=catalogue.source(recipe),
        ca_bundle=options.ca_bundle,
        wheels=options.wheels,
    )
    arguments = build_arguments(recipe, options.arguments)
    reference = image_reference(recipe, options.arguments)
    base, base_digest = _ensure_base(connection, host, recipe, options, progress)
    progress(f"building {reference} on {host.name} from {base}")
    ended = follow(
        connection,
        _build_argv(host, reference, options, {**arguments, "BASE_IMAGE": base}),
        progress,
        stdin=tar_stream(entries),
    )
    if ended.exit_code != 0:
        raise EngineError(
            f"building image '{recipe.name}' failed; its last lines:\n{ended.text}",
            where=host.name,
            next_step=f"mend the cause shown above, then: runner images build {recipe.name} "
            f"--host {host.name} (with --ca-bundle, --wheels or --pip-index behind a firewall)",
        )
    record = inspect(connection, host, reference)
    if record is None:
        raise ImageMissing(f"image '{reference}' was built and is not there", where=host.name)
    return LockedImage(
        name=recipe.name,
        reference=reference,
        digest=record["Id"],
        built_at=_now(),
        base=base,
        base_digest=base_digest,
        recipe_sha256=content_sha256(entries, arguments),
        arguments=arguments,
        size_bytes=record["Size"],
        entrypoint=recipe.entrypoint,
        environment=recipe.environment,
        versions=effective_versions(recipe, options.arguments),
    )


def find_image(connection: Connection, host: Host, choice: ImageChoice) -> LockedImage:
    """An image that is on the host already, as the lock records it.

    For a reference without a recipe the entrypoint is the image's own.

    Raises:
        ImageMissing: it is not there; says how to get it.
        EngineError: the engine can't be asked.
    """
    record = inspect(connection, host, choice.reference)
    if record is None:
        how = (
            f"runner images build {choice.name} --host {host.name}"
            if choice.recipe
            else f"on {host.name}: {host.engine.command} pull {choice.reference}; "
            f"then: runner images build --host {host.name}"
        )
        raise ImageMissing(
            f"image '{choice.reference}' is not there", where=host.name, next_step=how
        )
    configured = record.get("Config") or {}
    recipe = choice.recipe
    return LockedImage(
        name=choice.name,
        reference=choice.reference,
        digest=record["Id"],
        built_at=record.get("Created", ""),
        size_bytes=record.get("Size"),
        entrypoint=recipe.entrypoint if recipe else tuple(configured.get("Entrypoint") or ()),
        environment=recipe.environment if recipe else {},
        versions=effective_versions(recipe, {}) if recipe else {},
    )


def is_current(catalogue: Catalogue, image: LockedImage) -> bool | None:
    """Whether an image was built from the sources at hand, with the arguments it was built with.

    None when that can't be told: no recipe has its name, the record is of an image that was found
    and not built, or a part of the sources is not here.
    """
    recipe = catalogue.recipes.get(image.name)
    if recipe is None or image.recipe_sha256 is None:
        return None
    try:
        entries = context_entries(catalogue.folder(recipe), source=catalogue.source(recipe))
    except SpecError:
        return None
    return content_sha256(entries, image.arguments) == image.recipe_sha256


def _build_argv(
    host: Host, reference: str, options: BuildOptions, arguments: Mapping[str, str]
) -> list[str]:
    passed = dict(arguments)
    if options.pip_index:
        passed["PIP_INDEX_URL"] = options.pip_index
    if options.pip_extra_index:
        passed["PIP_EXTRA_INDEX_URL"] = options.pip_extra_index
    argv = engine_argv(host, "build", "--tag", reference, "--force-rm")
    for key, value in passed.items():
        argv += ["--build-arg", f"{key}={value}"]
    if options.no_cache:
        argv.append("--no-cache")
    if options.network:
        argv += ["--network", options.network]
    return [*argv, "-"]


def _ensure_base(
    connection: Connection,
    host: Host,
    recipe: ImageRecipe,
    options: BuildOptions,
    progress: Progress,
) -> tuple[str, str]:
    """Reference and digest of a base image that is on the host."""
    wanted = options.base or (base_reference() if options.bootstrap_base else recipe.base)
    record = inspect(connection, host, wanted)
    if record is None:
        if options.bootstrap_base:
            bootstrap_base(connection, host, progress)
        else:
            _pull(connection, host, wanted, progress)
        record = inspect(connection, host, wanted)
    if record is None:
        raise ImageMissing(f"base image '{wanted}' is not there", where=host.name)
    return wanted, str(record["Id"])


def _pull(connection: Connection, host: Host, reference: str, progress: Progress) -> None:
    progress(f"base image {reference} is not on {host.name}: pulling it")
    ended = follow(
        connection, engine_argv(host, "pull", reference), progress, timeout_s=PULL_TIMEOUT_S
    )
    if ended.exit_code != 0:
        raise EngineError(
            f"base image '{reference}' is not there and can't be pulled:\n{ended.text}",
            where=host.name,
            next_step="choose: --base IMAGE (one that is on the host, with Python 3.11 as python3 "
            "and its venv module), or --bootstrap-base (make one there with debootstrap)",
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

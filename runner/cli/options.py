"""Options and settings that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from runner.client.fleet import Fleet
    from runner.client.images import ImageFiles
    from runner.client.sources import PlanSources

_HINTS = ".hints.json"


class Format(StrEnum):
    """How a reading command answers."""

    TABLE = "table"
    JSON = "json"


@dataclass(frozen=True)
class Settings:
    """The options before the command."""

    hosts_file: Path
    store: Path
    lock: Path | None = None
    datasets: Path | None = None

    @property
    def images(self) -> Path:
        """The folder of image recipes: here, or that of the clone that this program runs from."""
        here = Path("images")
        return here if here.is_dir() else Path(__file__).parents[2] / "images"

    @property
    def lock_file(self) -> Path:
        """Where the digests of images are kept."""
        from runner.images.lock import LOCK_FILE

        return self.lock or self.images / LOCK_FILE

    @property
    def image_files(self) -> ImageFiles:
        """Recipes and lock."""
        from runner.client.images import ImageFiles

        return ImageFiles(self.images, self.lock_file)

    @property
    def plan_sources(self) -> PlanSources:
        """Where planning looks on this machine."""
        from runner.client.sources import PlanSources, cache_folder

        cache = cache_folder()
        datasets = self.datasets or cache / "datasets"
        return PlanSources(self.image_files, datasets, self.store, cache)

    @contextmanager
    def fleet(self) -> Iterator[Fleet]:
        """The hosts of the inventory; connections are closed at the end. Raises a SpecError."""
        from runner.client.fleet import open_fleet

        prompt = getpass if sys.stdin.isatty() else None
        fleet = open_fleet(self.hosts_file, hints=self.store / _HINTS, password_prompt=prompt)
        try:
            yield fleet
        finally:
            fleet.close()


def settings_of(context: typer.Context) -> Settings:
    """The settings that the callback of the program has left."""
    settings = context.obj
    assert isinstance(settings, Settings)
    return settings


def examples(*commands: str) -> str:
    """The end of a help page; the mark in front keeps the lines apart."""
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)


FormatOption = Annotated[Format, typer.Option("--format", help="Form of what stands on stdout.")]
HostOption = Annotated[str, typer.Option("--host", help="Name of a host in the inventory.")]
OnHost = Annotated[str | None, typer.Option("--host", help="Look on this host only.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Replace a value of the job file."),
]
JobArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[JOB]",
        help="Job file, or the bare name of one in jobs/; none with --drafter.",
    ),
]
RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="Job name (its newest run), run id or unique beginning."),
]

"""What an entry of the catalogue is: where its rows come from and how they are converted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runner.models.dataset import SourceKind

Row = Mapping[str, Any]
Convert = Callable[[Row], dict[str, Any]]
"""A row of the source -> a row of ours: `id`, one of `text`, `turns`, `messages`, and where the
source has them `category` and `answer`."""


@dataclass(frozen=True)
class PackageSource:
    """A file inside a package of the Python index; the package is never installed."""

    requirement: str
    member: str
    licence_member: str | None = None

    @property
    def text(self) -> str:
        """In words."""
        return f"{self.member} of the package {self.requirement}"


@dataclass(frozen=True)
class HubSource:
    """Files of a dataset repository on the Hugging Face hub; `pattern` is matched as in a shell."""

    repository: str
    pattern: str

    @property
    def text(self) -> str:
        """In words."""
        return f"{self.pattern} of {self.repository} on the hub"


@dataclass(frozen=True)
class Entry:
    """One dataset of the catalogue.

    Args:
        restricted: the licence forbids passing on prompts.
        licence_note: what to know, and what of it could not be verified here.
        keep: takes the rows that belong to it; all when None.
    """

    name: str
    title: str
    source: PackageSource | HubSource
    convert: Convert
    licence: str
    licence_note: str = ""
    restricted: bool = False
    keep: Callable[[Row], bool] | None = None

    @property
    def kind(self) -> SourceKind:
        """Package or hub."""
        return SourceKind.PACKAGE if isinstance(self.source, PackageSource) else SourceKind.HUB

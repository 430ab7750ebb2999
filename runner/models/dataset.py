"""Datasets: what the catalogue offers, and what was fetched."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from runner.models.base import SCHEMA_VERSION, Record


class SourceKind(StrEnum):
    """Where the rows of a dataset come from."""

    PACKAGE = "package"
    HUB = "hub"
    SHIPPED = "shipped"
    GENERATED = "generated"
    FILE = "file"


class DatasetRecord(Record):
    """One dataset as it lies in the cache, converted to the project's own JSONL.

    Args:
        name: catalogue name; rows have the ids `<name>/<row>`.
        source: package and version, repository and file, or generator with its arguments.
        revision: version, commit or content hash that pins the source.
        restricted: the licence forbids passing on prompts; they stay out of what is shared.
        sha256: of the JSONL.
        requests: turns of all rows; each is one request.
        categories: rows of each category, where the dataset has them.
    """

    schema_version: int = SCHEMA_VERSION
    name: str
    title: str
    kind: SourceKind
    source: str
    revision: str
    licence: str
    licence_note: str = ""
    restricted: bool = False
    sha256: str
    source_sha256: str | None = None
    rows: int
    requests: int
    categories: Mapping[str, int] = Field(default_factory=dict)
    fetched_at: str

"""What a finished run consists of, and what a collect has taken."""

from __future__ import annotations

from pydantic import Field

from runner.models.base import SCHEMA_VERSION, Record


class FileEntry(Record):
    """One file: path relative to the run, size in bytes, SHA-256 in hex."""

    path: str
    size_bytes: int = Field(ge=0)
    sha256: str


class Manifest(Record):
    """`manifest.json`, written last: its presence means that the run is complete.

    `refused` names what is no regular file (links with their target) and so is in no artifact.
    """

    schema_version: int = SCHEMA_VERSION
    run_id: str
    job: str
    created_at: str
    files: tuple[FileEntry, ...]
    refused: tuple[str, ...] = ()


class Collected(Record):
    """One version of a run in the store."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    job: str
    host: str
    version: int
    collected_at: str
    complete: bool
    status: str
    files: tuple[FileEntry, ...]
    left_out: tuple[str, ...] = ()

"""Which names are accepted from a host: a manifest and an archive are data, not orders."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import PurePosixPath

from runner.errors import ArtifactError, UnsafeArchive
from runner.models.manifest import FileEntry

_SHA256 = re.compile(r"[0-9a-f]{64}")
_NOT_A_COMPONENT = frozenset({"", ".", ".."})


def safe_path(path: str) -> str:
    """The path itself when it is relative, plain and stays in its folder.

    Raises:
        UnsafeArchive: it is absolute, has empty, `.` or `..` parts, or is not UTF-8 text.
    """
    parts = path.split("/")
    if _NOT_A_COMPONENT.intersection(parts) or "\0" in path or not _is_text(path):
        shown = path.encode("utf-8", "backslashreplace").decode()
        raise UnsafeArchive(
            f"path {shown!r} does not stay inside the run: expected a relative path without '..'",
            next_step="nothing was written for it; look at the run folder on the host",
        )
    return path


def safe_component(name: str, what: str) -> str:
    """The name itself when it can be one folder of the store; `what` says what it names.

    Raises:
        ArtifactError: it holds a slash, starts with a dot or is empty.
    """
    if not name or name.startswith(".") or "/" in name or "\0" in name or not _is_text(name):
        raise ArtifactError(
            f"{what} {name!r} can't be a folder name: expected letters, digits, '_', '.' and '-'",
            next_step="look at plan.json of the run on the host",
        )
    return name


def check_entries(files: Iterable[FileEntry]) -> tuple[FileEntry, ...]:
    """Entries that can be stored, sorted by path.

    Raises:
        UnsafeArchive: a path leaves the run, is there twice, or is both a file and a folder.
        ArtifactError: a hash is not a SHA-256 in lower-case hex.
    """
    entries = tuple(sorted(files, key=lambda entry: entry.path))
    paths = {safe_path(entry.path) for entry in entries}
    for entry, following in pairwise(entries):
        if entry.path == following.path:
            raise UnsafeArchive(f"{entry.path!r} is listed twice")
    for entry in entries:
        if not _SHA256.fullmatch(entry.sha256):
            raise ArtifactError(f"{entry.path}: {entry.sha256!r} is not a SHA-256")
        folders = {str(parent) for parent in PurePosixPath(entry.path).parents}
        if clash := folders & paths:
            raise UnsafeArchive(f"{clash.pop()!r} is listed as a file and as a folder")
    return entries


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True

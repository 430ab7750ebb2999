"""Hash files, write down what a run consists of, and check a folder against that."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from runner.errors import ArtifactError
from runner.models.manifest import FileEntry, Manifest

OUTSIDE = frozenset({"manifest.json", "control", "report"})
"""Top-level names that no manifest covers: itself, requests of clients, what `report` writes."""

_KINDS = (
    (stat.S_ISLNK, "symbolic link"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISFIFO, "pipe"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)


class ProblemKind(StrEnum):
    """How a folder differs from its manifest."""

    MISSING = "missing"
    SIZE = "size"
    HASH = "hash"
    EXTRA = "extra"
    NOT_A_FILE = "not_a_file"


@dataclass(frozen=True)
class Problem:
    """One difference: the path, what the manifest says and what is there."""

    kind: ProblemKind
    path: str
    expected: str | None = None
    got: str | None = None

    def __str__(self) -> str:
        match self.kind:
            case ProblemKind.MISSING:
                return f"{self.path}: missing"
            case ProblemKind.EXTRA:
                return f"{self.path}: not in the manifest"
            case ProblemKind.NOT_A_FILE:
                return f"{self.path}: expected a regular file, found a {self.got}"
            case ProblemKind.SIZE:
                return f"{self.path}: expected {self.expected} bytes, got {self.got}"
            case ProblemKind.HASH:
                return f"{self.path}: expected sha256 {self.expected}, got {self.got}"


def sha256_file(path: Path) -> str:
    """SHA-256 in hex, read in pieces.

    Raises:
        ArtifactError: the file can't be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ArtifactError(f"can't be read: {error.strerror}", where=str(path)) from error


def build_manifest(run_dir: Path, run_id: str, job: str, created_at: str) -> Manifest:
    """What the run folder holds now: every regular file but `OUTSIDE`, sorted by path.

    Links, sockets and devices are never followed or opened; `refused` lists them. The caller
    closes its own log first and writes the result as `manifest.json`, last of all.

    Raises:
        ArtifactError: a file or folder can't be read.
    """
    files: list[FileEntry] = []
    refused: list[str] = []
    for path, entry in _walk(run_dir):
        if path.split("/", 1)[0] in OUTSIDE:
            continue
        if (reason := _refusal(path, entry)) is not None:
            refused.append(reason)
            continue
        size = entry.stat(follow_symlinks=False).st_size
        files.append(
            FileEntry(path=path, size_bytes=size, sha256=sha256_file(Path(entry.path))),
        )
    return Manifest(
        run_id=run_id,
        job=job,
        created_at=created_at,
        files=tuple(sorted(files, key=lambda file: file.path)),
        refused=tuple(sorted(refused)),
    )


def verify(root: Path, manifest: Manifest) -> tuple[Problem, ...]:
    """Every difference between a folder and its manifest, sorted by path; empty when it holds."""
    return compare(root, manifest.files, OUTSIDE)


def compare(
    root: Path, entries: Iterable[FileEntry], outside: frozenset[str]
) -> tuple[Problem, ...]:
    """Differences between a folder and a list of files; top-level names in `outside` are ignored.

    Raises:
        ArtifactError: the folder can't be read.
    """
    expected = {entry.path: entry for entry in entries}
    problems: list[Problem] = []
    present: set[str] = set()
    for path, found in _walk(root):
        if path not in expected:
            if path.split("/", 1)[0] not in outside:
                problems.append(Problem(ProblemKind.EXTRA, _shown(path)))
            continue
        present.add(path)
        problems.extend(_difference(expected[path], found))
    for path in expected.keys() - present:
        problems.append(Problem(ProblemKind.MISSING, path))
    return tuple(sorted(problems, key=lambda problem: (problem.path, problem.kind)))


def _difference(entry: FileEntry, found: os.DirEntry[str]) -> Iterator[Problem]:
    status = found.stat(follow_symlinks=False)
    if not stat.S_ISREG(status.st_mode):
        yield Problem(ProblemKind.NOT_A_FILE, entry.path, "regular file", _kind(status.st_mode))
    elif status.st_size != entry.size_bytes:
        yield Problem(ProblemKind.SIZE, entry.path, str(entry.size_bytes), str(status.st_size))
    elif (got := sha256_file(Path(found.path))) != entry.sha256:
        yield Problem(ProblemKind.HASH, entry.path, entry.sha256, got)


def _walk(root: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything below `root` that is not a folder, links unfollowed, with its relative path."""
    pending = [("", str(root))]
    while pending:
        prefix, folder = pending.pop()
        try:
            with os.scandir(folder) as found:
                entries = list(found)
        except OSError as error:
            raise ArtifactError(f"can't be read: {error.strerror}", where=folder) from error
        for entry in entries:
            path = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                pending.append((path + "/", entry.path))
            else:
                yield path, entry


def _refusal(path: str, entry: os.DirEntry[str]) -> str | None:
    mode = entry.stat(follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        target = str(Path(entry.path).readlink())
        return f"{_shown(path)} -> {_shown(target)} (symbolic link)"
    if not stat.S_ISREG(mode):
        return f"{_shown(path)} ({_kind(mode)})"
    return f"{_shown(path)} (name is not UTF-8)" if _shown(path) != path else None


def _kind(mode: int) -> str:
    return next((name for test, name in _KINDS if test(mode)), "special file")


def _shown(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode()

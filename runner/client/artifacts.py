"""`runner artifacts list|verify|show` as data; reads the store and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from runner.artifacts.hashing import Problem
from runner.artifacts.safety import safe_path
from runner.artifacts.store import Store, StoredRun
from runner.errors import UnsafeArchive, UsageError
from runner.models.manifest import FileEntry

_REPORT = "report"


@dataclass(frozen=True)
class Row:
    """One stored run. `path` is the link to its newest version, `size_bytes` what that holds."""

    run_id: str
    job: str
    host: str
    status: str
    complete: bool
    version: int
    collected_at: str
    files: int
    size_bytes: int
    left_out: int
    has_report: bool
    path: Path


@dataclass(frozen=True)
class Verified:
    """One verified version; nothing is wrong when `problems` is empty."""

    run_id: str
    job: str
    version: int
    files: int
    complete: bool
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class Shown:
    """A version, or the part of it that was asked for. `path` is a folder or a file on this
    machine; `entries` are the collected files in it. A report is shown without entries."""

    run: StoredRun
    versions: tuple[int, ...]
    path: Path
    entries: tuple[FileEntry, ...]


def list_runs(store: Store) -> tuple[Row, ...]:
    """Every stored run with its newest version, oldest run first.

    Raises:
        ArtifactError: a record can't be read.
    """
    return tuple(_row(run) for run in store.runs())


def verify_runs(store: Store, names: Iterable[str] = ()) -> tuple[Verified, ...]:
    """Read every byte of every version of these runs (of all without names) and compare.

    Raises:
        UsageError: a name fits no run or more than one.
        ArtifactError: a record or folder can't be read.
    """
    runs = [store.find(name) for name in names] or list(store.runs())
    ids = dict.fromkeys(run.run_id for run in runs)
    return tuple(
        Verified(
            run_id=version.run_id,
            job=version.job,
            version=version.version,
            files=len(version.record.files),
            complete=version.record.complete,
            problems=store.verify(run_id, version.version),
        )
        for run_id in ids
        for version in store.versions(run_id)
    )


def show(store: Store, name: str, version: int | None = None, path: str | None = None) -> Shown:
    """One version of a run, or a file or folder in it (`report/...` too).

    Raises:
        UsageError: there is no such run, version or path, or the path leaves the run.
    """
    run_id = store.find(name).run_id
    run = store.version(run_id, version)
    versions = tuple(each.version for each in store.versions(run_id))
    if path is None or not path.strip("/"):
        return Shown(run, versions, run.tree, run.record.files)
    try:
        inside = safe_path(path.rstrip("/"))
    except UnsafeArchive as error:
        raise UsageError(
            f"'{path}' is no path inside the run; expected a relative one without '..'",
            where=run_id,
            next_step=f"runner artifacts show {run_id}",
        ) from error
    entries = tuple(
        entry
        for entry in run.record.files
        if entry.path == inside or entry.path.startswith(f"{inside}/")
    )
    is_report = inside.split("/", 1)[0] == _REPORT and (run.tree / inside).exists()
    if not entries and not is_report:
        tops = sorted({entry.path.split("/", 1)[0] for entry in run.record.files})
        raise UsageError(
            f"version {run.version} has no '{path}'; at its top are: {', '.join(tops)}",
            where=run_id,
            next_step=f"runner artifacts show {run_id}",
        )
    return Shown(run, versions, run.tree / inside, entries)


def _row(run: StoredRun) -> Row:
    record = run.record
    return Row(
        run_id=record.run_id,
        job=record.job,
        host=record.host,
        status=record.status,
        complete=record.complete,
        version=record.version,
        collected_at=record.collected_at,
        files=len(record.files),
        size_bytes=sum(entry.size_bytes for entry in record.files),
        left_out=len(record.left_out),
        has_report=(run.tree / _REPORT).is_dir(),
        path=run.link,
    )

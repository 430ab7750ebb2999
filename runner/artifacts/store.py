"""Runs on this machine: every collect of a changed run is a version, every file is there once.

<root>/<job>/<run id>          link to the newest version
<root>/.versions/<run id>/     0001/ (the files), 0001.json (what they are), 0002/ ...
<root>/.objects/ab/<sha256>    the content, read-only, hard-linked from every version
<root>/.partial/<run id>/      a collect in progress
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from runner.artifacts.atomic import sync_folder, write_json, writing
from runner.artifacts.hashing import Problem, ProblemKind, compare
from runner.artifacts.intake import Intake
from runner.artifacts.objects import Objects
from runner.artifacts.safety import check_entries, safe_component
from runner.errors import ArtifactError, UsageError
from runner.models.manifest import Collected, FileEntry, Manifest

_BESIDE_A_VERSION = frozenset({"report"})
_SHOWN_CANDIDATES = 8


@dataclass(frozen=True)
class StoredRun:
    """One version of a run. `tree` holds its files, `link` leads to the newest version."""

    record: Collected
    tree: Path
    link: Path

    @property
    def run_id(self) -> str:
        return self.record.run_id

    @property
    def job(self) -> str:
        return self.record.job

    @property
    def version(self) -> int:
        return self.record.version


class Store:
    """The folder `artifacts/`. Reading never writes; the folder is made by the first collect."""

    def __init__(self, root: Path):
        self.root = root
        self.objects = Objects(root / ".objects")

    def runs(self) -> tuple[StoredRun, ...]:
        """The newest version of every run, sorted by run id, oldest first.

        Raises:
            ArtifactError: a record can't be read.
        """
        newest = ((run_id, self._numbers(run_id)) for run_id in self._run_ids())
        return tuple(self._load(run_id, numbers[-1]) for run_id, numbers in newest if numbers)

    def find(self, name: str) -> StoredRun:
        """The newest version of one run, by run id, job (its newest run) or unique prefix.

        Raises:
            UsageError: nothing or more than one run fits; the message lists candidates.
        """
        runs = self.runs()
        by_job = [run for run in runs if run.job == name]
        exact = [run for run in runs if run.run_id == name] or by_job[-1:]
        fitting = exact or [run for run in runs if name and run.run_id.startswith(name)]
        if len(fitting) == 1:
            return fitting[0]
        candidates = fitting or list(runs)
        shown = ", ".join(f"{r.run_id} ({r.job})" for r in candidates[-_SHOWN_CANDIDATES:])
        more = f" and {n} older" if (n := len(candidates) - _SHOWN_CANDIDATES) > 0 else ""
        if fitting:
            problem, next_step = f"fits {len(fitting)} runs: {shown}{more}", "give more of the id"
        elif runs:
            problem, next_step = f"fits no run here; there are: {shown}{more}", "runner collect"
        else:
            problem, next_step = "fits no run: nothing is collected yet", "runner collect"
        raise UsageError(f"'{name}' {problem}", where=str(self.root), next_step=next_step)

    def versions(self, run_id: str) -> tuple[StoredRun, ...]:
        """Every version of one run, oldest first; empty when it was never collected."""
        return tuple(self._load(run_id, number) for number in self._numbers(run_id))

    def newest(self, run_id: str) -> StoredRun | None:
        """The newest version of exactly this run."""
        numbers = self._numbers(run_id)
        return self._load(run_id, numbers[-1]) if numbers else None

    def version(self, run_id: str, version: int | None = None) -> StoredRun:
        """One version of exactly this run; the newest without a number.

        Raises:
            UsageError: there is no such version; the message lists those that exist.
        """
        numbers = self._numbers(run_id)
        number = version if version is not None else (numbers or [0])[-1]
        if number not in numbers:
            there = ", ".join(map(str, numbers)) or "none"
            raise UsageError(
                f"run {run_id} has no version {number}; there are: {there}",
                where=str(self.root),
                next_step="runner artifacts list",
            )
        return self._load(run_id, number)

    def path(self, run_id: str, version: int | None = None) -> Path:
        """Folder of one version; raises as `version` does."""
        return self.version(run_id, version).tree

    def verify(self, run_id: str, version: int | None = None) -> tuple[Problem, ...]:
        """Differences between a version's files and its record, and of that and the manifest
        that came with it. Every byte is read. A `report/` beside the files is ignored."""
        run = self.version(run_id, version)
        problems = compare(run.tree, run.record.files, _BESIDE_A_VERSION)
        if run.record.complete and not any(p.path == "manifest.json" for p in problems):
            problems += _against_manifest(run)
        return tuple(sorted(problems, key=lambda problem: (problem.path, problem.kind)))

    def intake(self, run_id: str) -> Intake:
        """Where a collect puts what arrives; enter it as a context.

        Raises (on entering):
            ArtifactError: another collect of this run is at work.
        """
        safe_component(run_id, "run id")
        scratch = self.root / ".partial" / run_id
        return Intake(run_id, scratch, self._folder(run_id), self.objects)

    def commit(
        self,
        *,
        run_id: str,
        job: str,
        host: str,
        status: str,
        complete: bool,
        collected_at: str,
        files: Iterable[FileEntry],
        left_out: Iterable[str] = (),
    ) -> StoredRun:
        """Make a version of files whose content is among the objects, and return it.

        When the newest version holds exactly these files it is returned unchanged, after links
        that were damaged have been put back.

        Raises:
            ArtifactError: content is missing, or the store can't be written.
        """
        entries = check_entries(files)
        safe_component(run_id, "run id")
        safe_component(job, "job")
        if absent := [entry.path for entry in entries if not self.objects.has(entry)]:
            raise ArtifactError(
                f"content of {len(absent)} files is not here, the first is {absent[0]}",
                where=str(self.objects.root),
                next_step=f"runner collect {run_id}",
            )
        with self._locked():
            newest = self.newest(run_id)
            if newest is not None and newest.record.files == entries:
                self.objects.link_tree(entries, newest.tree)
                self._point(newest)
                return newest
            record = Collected(
                run_id=run_id,
                job=job,
                host=host,
                version=newest.version + 1 if newest else 1,
                collected_at=collected_at,
                complete=complete,
                status=status,
                files=entries,
                left_out=tuple(left_out),
            )
            return self._add(record)

    def _add(self, record: Collected) -> StoredRun:
        run = self._stored(record)
        building = run.tree.with_name(f".{run.tree.name}.{secrets.token_hex(4)}.tmp")
        try:
            for unfinished in run.tree.parent.glob(".*.tmp"):
                shutil.rmtree(unfinished)  # a collect was killed while it built this
            if run.tree.exists():
                # left by a crash between the two renames: without a record it is no version
                shutil.rmtree(run.tree)
            building.mkdir(parents=True)
            self.objects.link_tree(record.files, building)
            _flush(building)
            building.rename(run.tree)
            sync_folder(run.tree.parent)
        except OSError as error:
            raise ArtifactError(
                f"can't be written: {error.strerror}",
                where=str(run.tree),
                next_step=f"look at free space and permissions: df -h {self.root}",
            ) from error
        finally:
            shutil.rmtree(building, ignore_errors=True)
        write_json(run.tree.with_suffix(".json"), record)
        self._point(run)
        return run

    def _point(self, run: StoredRun) -> None:
        """Let `<job>/<run id>` lead to this version."""
        target = os.path.relpath(run.tree, run.link.parent)
        if run.link.is_symlink() and str(run.link.readlink()) == target:
            return
        temporary = run.link.with_name(f".{run.link.name}.{secrets.token_hex(4)}.tmp")
        try:
            run.link.parent.mkdir(parents=True, exist_ok=True)
            temporary.symlink_to(target)
            temporary.replace(run.link)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise ArtifactError(
                f"can't become a link to version {run.version}: {error.strerror}",
                where=str(run.link),
                next_step=f"move what is there away: mv {run.link} {run.link}.old",
            ) from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with writing(self.root / ".lock"):
            self.root.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _folder(self, run_id: str) -> Path:
        return self.root / ".versions" / run_id

    def _run_ids(self) -> list[str]:
        folder = self.root / ".versions"
        try:
            return sorted(entry.name for entry in folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise ArtifactError(
                f"can't be read: {error.strerror}",
                where=str(folder),
                next_step=f"check its owner and mode: ls -ld {folder}",
            ) from error

    def _numbers(self, run_id: str) -> list[int]:
        return sorted(
            int(path.stem) for path in self._folder(run_id).glob("*.json") if path.stem.isdigit()
        )

    def _load(self, run_id: str, number: int) -> StoredRun:
        path = self._folder(run_id) / f"{number:04d}.json"
        try:
            return self._stored(Collected.model_validate_json(path.read_bytes()))
        except (OSError, ValidationError) as error:
            raise ArtifactError(
                f"can't be read as the record of a version: {error}",
                where=str(path),
                next_step=f"move {path.parent} away and collect the run again",
            ) from error

    def _stored(self, record: Collected) -> StoredRun:
        return StoredRun(
            record,
            tree=self._folder(record.run_id) / f"{record.version:04d}",
            link=self.root / record.job / record.run_id,
        )


def _against_manifest(run: StoredRun) -> tuple[Problem, ...]:
    manifest = Manifest.model_validate_json((run.tree / "manifest.json").read_bytes())
    recorded = {entry.path: entry for entry in run.record.files if entry.path != "manifest.json"}
    problems = []
    for entry in manifest.files:
        got = recorded.pop(entry.path, None)
        if got is None:
            problems.append(Problem(ProblemKind.MISSING, entry.path))
        elif got != entry:
            problems.append(Problem(ProblemKind.HASH, entry.path, entry.sha256, got.sha256))
    return (*problems, *(Problem(ProblemKind.EXTRA, path) for path in recorded))


def _flush(folder: Path) -> None:
    """Put everything on disk at once: thousands of fsync calls would take many seconds."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            os.sync()
        elif syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(folder))
    finally:
        os.close(descriptor)

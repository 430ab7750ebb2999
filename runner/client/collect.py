"""`runner collect`: copy what is whole, check it, keep it as a version. Never deletes anything."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from pydantic import ValidationError

from runner.artifacts.extract import Arrived, BrokenArchive, Wanted, extract
from runner.artifacts.intake import Intake
from runner.artifacts.safety import check_entries
from runner.artifacts.selection import Listed, select
from runner.artifacts.store import Store, StoredRun
from runner.client.run_files import Output, RunFiles, RunHead, read_head
from runner.client.runs import RUN_ID
from runner.errors import (
    ArtifactError,
    CommandFailed,
    ConnectionLost,
    FileMissing,
    ManifestMismatch,
)
from runner.journal.replay import replay
from runner.journal.writer import utc_now
from runner.models.event import EventKind
from runner.models.host import Host
from runner.models.layout import RunLayout
from runner.models.manifest import FileEntry, Manifest
from runner.models.status import Status
from runner.transport.base import Connection

_INSIDE = RunLayout(PurePosixPath())
_MANIFEST = str(_INSIDE.manifest)
_JOURNAL = str(_INSIDE.journal)
_CHANGED = ": file changed as we read it"


@dataclass(frozen=True)
class RemoteRun:
    """A run as its host holds it; `complete` means that its manifest is written."""

    job: str
    run_id: str
    run_dir: str
    complete: bool


@dataclass(frozen=True)
class Progress:
    """How far a copy is: files that are whole, bytes that came over the connection."""

    files: int
    files_total: int
    received_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class CollectOutcome:
    """What a collect did. `new` is False when the newest version held everything already;
    `received_bytes` counts the tar stream; `as_root` tells that a container read the files."""

    run: StoredRun
    new: bool
    received_files: int
    received_bytes: int
    as_root: bool

    @property
    def complete(self) -> bool:
        return self.run.record.complete

    @property
    def left_out(self) -> tuple[str, ...]:
        return self.run.record.left_out


@dataclass(frozen=True)
class _File:
    """A file to have: with `sha256` it is checked against the manifest, without it `modified`
    tells whether it is still the one that came before."""

    size_bytes: int
    sha256: str | None = None
    modified: str | None = None
    growing: bool = False


@dataclass
class _Copy:
    """What came of the files that were needed."""

    entries: dict[str, FileEntry] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    files: int = 0
    received_bytes: int = 0


def runs_on_host(connection: Connection, host: Host) -> tuple[RemoteRun, ...]:
    """Runs under the host's run root, oldest first, by one command.

    Raises:
        HostError: the host does not answer or refuses.
    """
    argv = ["env", "LC_ALL=C", "find", host.run_root, "-mindepth", "3", "-maxdepth", "3"]
    argv += ["(", "-name", "plan.json", "-o", "-name", _MANIFEST, ")", "-printf", r"%P\0"]
    done = connection.run(argv, check=False)
    if done.exit_code and b"No such file or directory" in done.stderr and not done.stdout:
        return ()
    if done.exit_code and b"Permission denied" not in done.stderr:
        raise CommandFailed(
            f"runs under {host.run_root} can't be listed: {done.stderr.decode('utf-8', 'replace')}",
            where=host.name,
            next_step=f"runner hosts check {host.name}",
            command_exit_code=done.exit_code,
        )
    found = {PurePosixPath(name) for name in done.text.split("\0") if name}
    return tuple(
        RemoteRun(
            job=path.parts[0],
            run_id=path.parts[1],
            run_dir=f"{host.run_root.rstrip('/')}/{path.parent}",
            complete=path.with_name(_MANIFEST) in found,
        )
        for path in sorted(found, key=lambda path: path.parts[1:])
        if path.name == "plan.json" and RUN_ID.fullmatch(path.parts[1])
    )


def with_news(runs: Iterable[RemoteRun], store: Store) -> tuple[RemoteRun, ...]:
    """Runs that a collect could add something to: all but those that are complete here."""

    def is_complete(run: RemoteRun) -> bool:
        newest = store.newest(run.run_id)
        return newest is not None and newest.record.complete

    return tuple(run for run in runs if not is_complete(run))


def collect_run(
    connection: Connection,
    host: Host,
    run_dir: str,
    store: Store,
    progress: Callable[[Progress], None] = lambda _: None,
) -> CollectOutcome:
    """Copy a run into the store. What a broken collect brought is not sent again.

    A finished run is copied by its manifest, every file verified. Of a run that is still going
    the parts that are whole are taken; `left_out` names the others.

    Raises:
        ManifestMismatch: files differ from the manifest; the others are kept for the next time.
        UnsafeArchive: the host sent or announced something that is no plain file of the run.
        ArtifactError: another collect of this run is at work, or the store can't be written.
        HostError: the host does not answer, refuses, or the connection broke.
    """
    head = read_head(connection, host, run_dir)
    source = RunFiles(connection, host, run_dir, head.supervisor.image)
    with store.intake(head.run_id) as intake:
        collect = _Collect(head, host, source, store, intake, progress)
        data = source.read(_MANIFEST)
        if data is None:
            listed = source.listing()
            if any(file.path == _MANIFEST for file in listed):
                data = source.read(_MANIFEST)
            else:
                return collect.running(listed)
        if data is None:
            raise FileMissing(f"{run_dir}/{_MANIFEST} went away", where=host.name)
        return collect.finished(data)


class _Collect:
    """One collect: the run, where it is, where it goes."""

    def __init__(
        self,
        head: RunHead,
        host: Host,
        source: RunFiles,
        store: Store,
        intake: Intake,
        progress: Callable[[Progress], None],
    ):
        self.head = head
        self.host = host
        self.source = source
        self.store = store
        self.intake = intake
        self.progress = progress

    def finished(self, data: bytes) -> CollectOutcome:
        """Everything that the manifest lists, verified."""
        manifest = self._manifest(data)
        copy = _Copy()
        need: dict[str, _File] = {}
        seen: set[str] = set()
        for entry in check_entries(manifest.files):
            if not self.store.objects.has(entry) and entry.sha256 not in seen:
                need[entry.path] = _File(entry.size_bytes, sha256=entry.sha256)
                seen.add(entry.sha256)
        self._fetch(need, copy)
        if copy.problems:
            raise ManifestMismatch(
                "\n  ".join([*copy.problems[:10], *_more(copy.problems, 10)]),
                where=self.head.run_id,
                next_step="a file changed after the run ended: look at the run folder on "
                f"{self.host.name}; what verified is kept",
            )
        manifest_entry = self.intake.keep_bytes(_MANIFEST, data, hashlib.sha256(data).hexdigest())
        outcome = self._commit((*manifest.files, manifest_entry), manifest.refused, copy, True)
        self.intake.finish()
        return outcome

    def running(self, listed: Iterable[Listed]) -> CollectOutcome:
        """What is whole of a run without a manifest."""
        newest = self.store.newest(self.head.run_id)
        if newest is not None and newest.record.complete:
            raise ArtifactError(
                f"{_MANIFEST} is gone on the host, but version {newest.version} here is complete: "
                "nothing was taken",
                where=f"{self.host.name}: {self.head.run_id}",
                next_step=f"runner artifacts verify {self.head.run_id}",
            )
        chosen = select(listed)
        copy = _Copy()
        need: dict[str, _File] = {}
        for files, growing in ((chosen.whole, False), (chosen.growing, True)):
            for path, file in files.items():
                known = self.intake.known(path, file.size_bytes, file.modified)
                if known is not None:
                    copy.entries[path] = known
                else:
                    need[path] = _File(file.size_bytes, None, file.modified, growing)
        self._fetch(need, copy)
        if copy.problems:
            raise ManifestMismatch(
                "\n  ".join([*copy.problems[:10], *_more(copy.problems, 10)]),
                where=self.head.run_id,
                next_step=f"runner collect {self.head.run_id}: what came whole is kept",
            )
        left_out = (*chosen.left_out, *copy.left_out)
        return self._commit(copy.entries.values(), left_out, copy, False)

    def _manifest(self, data: bytes) -> Manifest:
        where = f"{self.host.name}: {self.head.run_id}/{_MANIFEST}"
        step = f"look at the run folder on {self.host.name}"
        try:
            manifest = Manifest.model_validate_json(data)
        except ValidationError as error:
            raise ArtifactError(f"is no manifest: {error}", where=where, next_step=step) from error
        if manifest.run_id != self.head.run_id:
            raise ArtifactError(f"belongs to run {manifest.run_id}", where=where, next_step=step)
        return manifest

    def _fetch(self, need: Mapping[str, _File], copy: _Copy) -> None:
        """Bring the needed files over; a second time as root for those that were refused."""
        left = dict(need)
        while left:
            with self.source.archive(tuple(left)) as output:
                done = self._take(output, left, need, copy)
            left = {path: file for path, file in left.items() if path not in done}
            if left and output.denied and not self.source.as_root:
                self.source.as_root = True
                continue
            self._judge(output, left, need)
            return

    def _take(
        self, output: Output, left: Mapping[str, _File], need: Mapping[str, _File], copy: _Copy
    ) -> set[str]:
        wanted = {path: Wanted(file.size_bytes, file.growing) for path, file in left.items()}
        total = sum(file.size_bytes for file in need.values())
        done: set[str] = set()

        def pieces() -> Iterator[bytes]:
            for data in output:
                copy.received_bytes += len(data)
                self.progress(Progress(copy.files, len(need), copy.received_bytes, total))
                yield data

        try:
            for arrived in extract(pieces(), wanted, self.intake.scratch()):
                done.add(arrived.path)
                self._keep(arrived, left[arrived.path], copy)
        except ConnectionLost as error:
            raise ConnectionLost(
                f"the connection broke after {copy.files} of {len(need)} files: {error.what}",
                where=self.host.name,
                next_step=f"runner collect {self.head.run_id} goes on from there",
            ) from error
        except BrokenArchive:
            # a stream that tar itself broke off is judged by what tar said
            if output.exit_code in (None, 0):
                raise
        return done

    def _keep(self, arrived: Arrived, file: _File, copy: _Copy) -> None:
        copy.files += 1
        problem = None
        if file.growing:
            if arrived.size_bytes != file.size_bytes:
                copy.left_out.append(f"{arrived.path}: was replaced while it was copied")
                arrived.file.unlink()
                return
        elif arrived.sent_bytes != file.size_bytes:
            problem = f"expected {file.size_bytes} bytes, got {arrived.sent_bytes}"
        elif file.sha256 not in (None, arrived.sha256):
            problem = f"expected sha256 {file.sha256}, got {arrived.sha256}"
        if problem is not None:
            copy.problems.append(f"{arrived.path}: {problem}")
            arrived.file.unlink()
            return
        copy.entries[arrived.path] = self.intake.keep(arrived, file.modified)

    def _judge(self, output: Output, left: Mapping[str, _File], need: Mapping[str, _File]) -> None:
        """A file that may change is either growing or checked by its hash; nothing else may."""
        may_change = {path for path, file in need.items() if file.growing or file.sha256}
        changed = {f"tar: {path}{_CHANGED}" for path in may_change}
        tolerated = output.exit_code == 1 and changed.issuperset(output.lines())
        if output.exit_code != 0 and not tolerated:
            raise self.source.failed(output)
        if left:
            raise ArtifactError(
                f"{len(left)} files were not sent, the first is {next(iter(left))}",
                where=f"{self.host.name}: {self.head.run_id}",
                next_step=f"runner collect {self.head.run_id}",
            )

    def _commit(
        self,
        files: Iterable[FileEntry],
        left_out: Iterable[str],
        copy: _Copy,
        complete: bool,
    ) -> CollectOutcome:
        entries = {entry.path: entry for entry in files}
        before = self.store.newest(self.head.run_id)
        run = self.store.commit(
            run_id=self.head.run_id,
            job=self.head.job,
            host=self.host.name,
            status=self._status(entries.get(_JOURNAL)),
            complete=complete,
            collected_at=utc_now(),
            files=entries.values(),
            left_out=left_out,
        )
        return CollectOutcome(
            run,
            new=before is None or before.version != run.version,
            received_files=copy.files,
            received_bytes=copy.received_bytes,
            as_root=self.source.as_root,
        )

    def _status(self, journal: FileEntry | None) -> str:
        """Where the run stood by its journal; a journal that is damaged is collected too."""
        status = Status.PENDING
        data = self.store.objects.path(journal.sha256).read_bytes() if journal else b""
        try:
            for event in replay(data):
                if event.kind is EventKind.RUN_STARTED:
                    status = Status.RUNNING
                elif event.kind is EventKind.RUN_ENDED and event.status is not None:
                    return event.status
        except ArtifactError:
            return "UNKNOWN"
        return status


def _more(items: list[str], shown: int) -> list[str]:
    return [f"and {len(items) - shown} more"] if len(items) > shown else []

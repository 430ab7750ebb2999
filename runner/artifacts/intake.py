"""A collect in progress: one at a time for a run, continued by the next one when it breaks."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from types import TracebackType

from pydantic import ValidationError

from runner.artifacts.atomic import writing
from runner.artifacts.extract import Arrived
from runner.artifacts.objects import Objects
from runner.errors import ArtifactError
from runner.models.base import Record
from runner.models.manifest import FileEntry


class _Seen(Record):
    """A file as it was on the host when it came; `modified` is what the listing said."""

    path: str
    size_bytes: int
    modified: str
    sha256: str


class Intake:
    """Holds a run's lock, the scratch folder and the memory of what came before.

    Content goes into the store's objects file by file, so a broken collect loses only the file
    it was in. Nothing is created on disk before the first file comes.
    """

    def __init__(self, run_id: str, scratch: Path, lock_folder: Path, objects: Objects):
        self.run_id = run_id
        self.objects = objects
        self._scratch = scratch
        self._lock_folder = lock_folder
        self._lock: int | None = None
        self._seen: dict[str, _Seen] = {}

    def __enter__(self) -> Intake:
        with writing(self._lock_folder):
            self._lock_folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self._lock_folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise ArtifactError(
                f"another collect of run {self.run_id} is at work",
                where=str(self._lock_folder),
                next_step=f"wait for it to end, then: runner collect {self.run_id}",
            ) from error
        self._seen = _read_index(self._index)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def _index(self) -> Path:
        return self._scratch / "index.jsonl"

    def scratch(self) -> Path:
        """Folder for files that are arriving; pieces left by a collect that broke are removed."""
        with writing(self._scratch):
            self._scratch.mkdir(parents=True, exist_ok=True)
            for piece in self._scratch.glob("*.part"):
                piece.unlink()
        return self._scratch

    def known(self, path: str, size_bytes: int, modified: str) -> FileEntry | None:
        """The stored content of a file that has not changed on the host since it came."""
        seen = self._seen.get(path)
        if seen is None or (seen.size_bytes, seen.modified) != (size_bytes, modified):
            return None
        entry = FileEntry(path=path, size_bytes=size_bytes, sha256=seen.sha256)
        return entry if self.objects.has(entry) else None

    def keep(self, arrived: Arrived, modified: str | None) -> FileEntry:
        """Store a file that came whole; with `modified` it is `known` from now on."""
        entry = FileEntry(path=arrived.path, size_bytes=arrived.size_bytes, sha256=arrived.sha256)
        self.objects.adopt(arrived.file, entry)
        if modified is not None:
            seen = _Seen(
                path=entry.path,
                size_bytes=entry.size_bytes,
                modified=modified,
                sha256=entry.sha256,
            )
            self._seen[entry.path] = seen
            with writing(self._index), self._index.open("ab") as file:
                file.write(seen.model_dump_json().encode() + b"\n")
        return entry

    def keep_bytes(self, path: str, data: bytes, sha256: str) -> FileEntry:
        """Store a small file that is in memory already."""
        entry = FileEntry(path=path, size_bytes=len(data), sha256=sha256)
        if not self.objects.has(entry):
            piece = self.scratch() / f"{sha256}.part"
            with writing(piece):
                piece.write_bytes(data)
            self.objects.adopt(piece, entry)
        return entry

    def finish(self) -> None:
        """Forget everything but the stored content: the run is complete here."""
        if self._scratch.exists():
            shutil.rmtree(self._scratch)


def _read_index(path: Path) -> dict[str, _Seen]:
    """Lines that are not whole (a crash in a write) only mean that a file comes once more."""
    seen: dict[str, _Seen] = {}
    if not path.exists():
        return seen
    for line in path.read_bytes().splitlines():
        try:
            record = _Seen.model_validate_json(line)
        except ValidationError:
            continue
        seen[record.path] = record
    return seen

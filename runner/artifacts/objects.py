"""Every collected file once, under its SHA-256, read-only."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from runner.errors import ArtifactError
from runner.models.manifest import FileEntry

_READ_ONLY = 0o444
_NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK})
"""Other filesystem, no hard links there, or (EMLINK) more links than one file may have."""


class Objects:
    """`<root>/ab/<sha256>`. Content is never changed once it is there."""

    def __init__(self, root: Path):
        self.root = root

    def path(self, sha256: str) -> Path:
        """Where the content with this hash lies, present or not."""
        return self.root / sha256[:2] / sha256

    def has(self, entry: FileEntry) -> bool:
        """True when the content is there with the right size; `verify` looks at its bytes."""
        try:
            status = self.path(entry.sha256).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return stat.S_ISREG(status.st_mode) and status.st_size == entry.size_bytes

    def adopt(self, file: Path, entry: FileEntry) -> None:
        """Move a file whose hash was computed into the store; `file` is gone afterwards.

        Raises:
            ArtifactError: it can't be moved there.
        """
        if self.has(entry):
            file.unlink()
            return
        target = self.path(entry.sha256)
        try:
            file.chmod(_READ_ONLY)
            _in_folder(target, lambda: file.replace(target))
        except OSError as error:
            raise _failed(target, error) from error

    def link_tree(self, entries: Iterable[FileEntry], tree: Path) -> None:
        """Make `tree` hold these files as hard links (copies where links are impossible).

        Files that are right already stay untouched; one whose link was broken is put back.

        Raises:
            ArtifactError: an object is missing or the tree can't be written.
        """
        for entry in entries:
            target = tree / entry.path
            try:
                self._link(entry, target)
            except OSError as error:
                raise _failed(target, error) from error

    def _link(self, entry: FileEntry, target: Path) -> None:
        source = self.path(entry.sha256)
        try:
            there = target.lstat()
        except FileNotFoundError:
            _in_folder(target, lambda: _link_or_copy(source, target))
            return
        wanted = source.lstat()
        if os.path.samestat(there, wanted) or self._is_copy(there, wanted):
            return
        temporary = target.with_name(f".{entry.sha256}.tmp")
        temporary.unlink(missing_ok=True)
        _link_or_copy(source, temporary)
        temporary.replace(target)

    @staticmethod
    def _is_copy(there: os.stat_result, source: os.stat_result) -> bool:
        same_content = (there.st_size, there.st_mtime_ns) == (source.st_size, source.st_mtime_ns)
        return stat.S_ISREG(there.st_mode) and same_content


def _in_folder(target: Path, action: Callable[[], object]) -> None:
    """Do something that needs the folder of `target`, which is nearly always there."""
    try:
        action()
    except FileNotFoundError:
        target.parent.mkdir(parents=True, exist_ok=True)
        action()


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        shutil.copyfile(source, target)
        shutil.copystat(source, target)


def _failed(target: Path, error: OSError) -> ArtifactError:
    return ArtifactError(
        f"can't be stored: {error.strerror}",
        where=str(target),
        next_step="look at free space and permissions of the artifacts folder",
    )

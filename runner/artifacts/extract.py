"""Take a tar apart while it arrives, trusting nothing that it says."""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from runner.artifacts.safety import safe_path
from runner.errors import ArtifactError, UnsafeArchive

_PIECE_BYTES = 1 << 20
_READ_AHEAD_BYTES = 1 << 16
"""`tarfile` copies what it read ahead with every header, so more makes small files slow."""
_SPARE_BYTES = 1 << 20
_SPARE_PER_MEMBER_BYTES = 8192
_SPARE_GROWTH_BYTES = 256 << 20
"""How far a growing file may grow between its listing and its turn in the archive."""


class BrokenArchive(ArtifactError):
    """The stream is no tar, or ends in the middle of a member."""


@dataclass(frozen=True)
class Wanted:
    """A file that was asked for. Of a growing one the first `size_bytes` are taken."""

    size_bytes: int
    growing: bool = False


@dataclass(frozen=True)
class Arrived:
    """A file that came whole. `file` holds `size_bytes` bytes with this hash and now belongs to
    the caller; `sent_bytes` is its size in the archive."""

    path: str
    size_bytes: int
    sent_bytes: int
    sha256: str
    file: Path


def extract(
    chunks: Iterable[bytes], wanted: Mapping[str, Wanted], scratch: Path
) -> Iterator[Arrived]:
    """Files of a tar stream, each handed out when its last byte is on disk in `scratch`.

    Owners, modes and times of the archive are ignored. Folders are skipped: who stores a file
    makes its folders. When the stream breaks, what came whole before has been handed out.

    Raises:
        UnsafeArchive: a member is no regular file or folder, was not asked for, leaves the
            folder, or the stream is longer than what was announced; nothing is written for it.
        BrokenArchive: the stream is no tar or ends in the middle of a member.
        ArtifactError: `scratch` can't be written.
        HostError: whatever `chunks` raises passes unchanged.
    """
    source = _Pieces(chunks, _limit(wanted))
    seen: set[str] = set()
    try:
        archive = tarfile.open(  # noqa: SIM115 - closing reads nothing more, the caller ends it
            fileobj=cast("IO[bytes]", source), mode="r|", bufsize=_READ_AHEAD_BYTES
        )
        for member in archive:
            if not _is_file(member, wanted, seen):
                continue
            content = archive.extractfile(member)
            assert content is not None, "a regular file has content"
            yield _save(content, member, wanted[member.name], scratch)
        source.drain()
    except tarfile.TarError as error:
        raise BrokenArchive(
            f"the archive broke off or is no tar: {error}",
            next_step="collect again: what came whole is kept",
        ) from error


def _limit(wanted: Mapping[str, Wanted]) -> int:
    total = _SPARE_BYTES
    for path, entry in wanted.items():
        total += entry.size_bytes + _SPARE_PER_MEMBER_BYTES + 4 * len(path)
        total += _SPARE_GROWTH_BYTES if entry.growing else 0
    return total


def _is_file(member: tarfile.TarInfo, wanted: Mapping[str, Wanted], seen: set[str]) -> bool:
    """False for a folder, which is skipped; a link's own name is checked before its kind."""
    safe_path(member.name)
    if member.isdir():
        return False
    if not member.isreg() or member.issparse():
        kind = "link" if member.issym() or member.islnk() else "special file"
        raise UnsafeArchive(
            f"archive member {member.name!r} is a {kind}"
            + (f" to {member.linkname!r}" if member.linkname else "")
            + ": only regular files are taken",
            next_step="look at the run folder on the host",
        )
    if member.name not in wanted or member.name in seen:
        fault = "came twice" if member.name in seen else "was not asked for"
        raise UnsafeArchive(f"archive member {member.name!r} {fault}")
    seen.add(member.name)
    return True


def _save(content: IO[bytes], member: tarfile.TarInfo, wanted: Wanted, scratch: Path) -> Arrived:
    digest = hashlib.sha256()
    left = min(member.size, wanted.size_bytes)
    descriptor, name = tempfile.mkstemp(dir=scratch, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            while left and (piece := content.read(min(left, _PIECE_BYTES))):
                digest.update(piece)
                file.write(piece)
                left -= len(piece)
        if left:
            raise tarfile.ReadError(f"{member.name!r} is {left} bytes short")
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise ArtifactError(
            f"can't be written: {error.strerror}",
            where=name,
            next_step=f"look at free space: df -h {scratch}",
        ) from error
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    size = min(member.size, wanted.size_bytes)
    return Arrived(member.name, size, member.size, digest.hexdigest(), Path(name))


class _Pieces:
    """File-like view of chunks, as `tarfile` wants it, with a limit on the whole."""

    def __init__(self, chunks: Iterable[bytes], limit_bytes: int):
        self._chunks = iter(chunks)
        self._buffer = memoryview(b"")
        self._limit_bytes = limit_bytes

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; empty only at the end."""
        while not self._buffer:
            try:
                self._buffer = memoryview(next(self._chunks))
            except StopIteration:
                return b""
            self._limit_bytes -= len(self._buffer)
            if self._limit_bytes < 0:
                raise UnsafeArchive("the archive is longer than what was announced")
        piece, self._buffer = self._buffer[:size], self._buffer[size:]
        return bytes(piece)

    def drain(self) -> None:
        """Take the padding after the last member, so that the command behind can end."""
        while self.read(_PIECE_BYTES):
            pass

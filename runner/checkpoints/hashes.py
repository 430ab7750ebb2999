"""SHA-256 of files on a host: computed there, remembered here, so that nothing is hashed twice."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runner.errors import CommandFailed, HostError
from runner.transport.base import Connection, Source

Progress = Callable[[str], None]

# A spinning disk that somebody else reads as well
_SLOWEST_BYTES_PER_S = 10_000_000
_PATIENCE_S = 120.0
# sshd takes one line of 128 KiB, quotes included
_ARGUMENT_BYTES = 60_000
# a file that takes long enough to be told about
_LARGE_BYTES = 100_000_000

_LINE = re.compile(rb"(?P<escaped>\\?)(?P<sha256>[0-9a-f]{64}) [ *](?P<path>.*)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"r": b"\r"}


@dataclass(frozen=True)
class HostFile:
    """A file as a listing shows it; `modified` is the time to a fraction of a second, as text."""

    path: str
    size_bytes: int
    modified: str


class HashCache:
    """Hashes by host, path, size and time of modification, in one JSON file on this machine.

    A file that is missing, damaged or unwritable costs time, never a result.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def known(self, host: str) -> Mapping[HostFile, str]:
        """Every hash that is remembered of a host."""
        entries = self._read().get(host)
        found: dict[HostFile, str] = {}
        for path, entry in entries.items() if isinstance(entries, dict) else ():
            with suppress(TypeError, KeyError, ValueError):
                file = HostFile(path, int(entry["size_bytes"]), str(entry["modified"]))
                found[file] = str(entry["sha256"])
        return found

    def add(self, host: str, hashes: Mapping[HostFile, str]) -> None:
        """Remember hashes; what was known of other files stays."""
        content = self._read()
        entries = content.get(host)
        mine = entries if isinstance(entries, dict) else {}
        for file, sha256 in hashes.items():
            mine[file.path] = {
                "size_bytes": file.size_bytes,
                "modified": file.modified,
                "sha256": sha256,
            }
        content[host] = mine
        temporary = self._file.with_name(f".{self._file.name}.{secrets.token_hex(4)}.tmp")
        # without the cache the next plan hashes again
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            try:
                temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
                temporary.replace(self._file)
            finally:
                temporary.unlink(missing_ok=True)

    def _read(self) -> dict[str, object]:
        try:
            content = json.loads(self._file.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}


def hash_files(
    connection: Connection, files: Sequence[HostFile], cache: HashCache, progress: Progress
) -> dict[HostFile, str]:
    """SHA-256 of each file in hex; only what `cache` does not know is read, on the host.

    Raises:
        HostError: a file can't be read there, or there is no `sha256sum`.
    """
    known = cache.known(connection.name)
    hashes = {file: known[file] for file in files if file in known}
    missing = [file for file in files if file not in hashes]
    total = sum(file.size_bytes for file in missing)
    if missing:
        progress(f"hashing {len(missing)} files on {connection.name}, {_size(total)}")
    done = 0
    for batch in _batches(missing):
        fresh: dict[HostFile, str] = {}
        for file, sha256 in _sums(connection, batch):
            fresh[file] = sha256
            done += file.size_bytes
            if file.size_bytes >= _LARGE_BYTES:
                progress(f"hashed {file.path}: {_size(done)} of {_size(total)}")
        cache.add(connection.name, fresh)
        hashes.update(fresh)
    return hashes


def _batches(files: Sequence[HostFile]) -> Iterator[list[HostFile]]:
    batch: list[HostFile] = []
    size = 0
    for file in files:
        length = 2 * len(file.path.encode())
        if batch and size + length > _ARGUMENT_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += length
    if batch:
        yield batch


def _sums(connection: Connection, files: Sequence[HostFile]) -> Iterator[tuple[HostFile, str]]:
    """Each file with its hash as soon as it is there."""
    argv = ("sha256sum", "--", *(file.path for file in files))
    patience_s = _PATIENCE_S + sum(file.size_bytes for file in files) / _SLOWEST_BYTES_PER_S
    waiting = {file.path.encode(): file for file in files}
    rest, said = b"", b""
    with connection.stream(argv, timeout_s=patience_s) as stream:
        for chunk in stream:
            if chunk.source is Source.STDERR:
                said += chunk.data
                continue
            *lines, rest = (rest + chunk.data).split(b"\n")
            for line in lines:
                # by name: there is no line for a file that can't be read
                found = _LINE.fullmatch(line)
                file = waiting.pop(_named(found), None) if found else None
                if found and file:
                    yield file, found["sha256"].decode()
        code = stream.exit_code
    if code != 0 or waiting:
        text = said.decode("utf-8", "replace").strip()
        raise _failed(connection.name, code, text, next(iter(waiting.values()), None))


def _named(line: re.Match[bytes]) -> bytes:
    """The path of a line; a backslash at its start says that the path is escaped."""
    path = line["path"]
    if not line["escaped"]:
        return path
    return re.sub(rb"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), path)


def _failed(host: str, code: int | None, said: str, file: HostFile | None) -> HostError:
    return CommandFailed(
        f"the checkpoint can't be hashed: sha256sum ended with exit code {code}: "
        f"{said or 'it said nothing'}",
        where=host,
        next_step=f"on {host}: sha256sum {file.path if file else '--version'}",
        command_exit_code=code,
        stderr=said,
    )


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.2f} GB" if size_bytes >= _LARGE_BYTES else f"{size_bytes} bytes"

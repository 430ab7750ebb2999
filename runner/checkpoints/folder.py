"""A checkpoint in a folder on a host: listed, hashed there, and only small files read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from runner.checkpoints.content import parse_config, template_in
from runner.checkpoints.hashes import HashCache, HostFile, Progress, hash_files
from runner.errors import FileMissing, HostError, UsageError
from runner.models.checkpoint import Checkpoint, CheckpointFile
from runner.transport.base import Connection

HASH_FILE = "checkpoint-hashes.json"
SMALL_BYTES = 128 << 20
"""The largest file that is copied from a host; tokenizer.json of a large vocabulary has 35 MB."""

_LIST = r"%y %s %T@ %P\0"
_LIST_TIMEOUT_S = 120.0


def read_folder(
    connection: Connection, name: str, *, revision: str | None, cache: Path, progress: Progress
) -> Checkpoint:
    """The checkpoint in the folder `name`; see `fetch_checkpoint`."""
    if revision is not None and not revision.startswith("sha256:"):
        raise UsageError(
            f"{name} is a folder, and '{revision}' no revision of one; expected sha256:<hex>",
            next_step="leave the revision out: a plan shows that of the folder",
        )
    _check_folder(connection, name)
    read = _reader(connection, name)
    config = read("config.json")
    if config is None:
        raise FileMissing(
            f"{name} holds no config.json, so it is no checkpoint",
            where=connection.name,
            next_step=f"on {connection.name}: ls {name}; then name the folder with the config.json",
        )
    parsed = parse_config(config, f"{connection.name}:{name}/config.json")
    files = _hashed(connection, name, _listed(connection, name), cache, progress)
    content = content_revision(files)
    if revision not in (None, content):
        raise UsageError(
            f"{name} has the content {content}, and {revision} is asked for",
            where=connection.name,
            next_step="put the checkpoint that was meant there, or set the revision to this one",
        )
    return Checkpoint(
        name=name,
        local=True,
        revision=content,
        revision_source=f"content of the folder on {connection.name} ({len(files)} files)",
        config=parsed,
        files=files,
        chat_template=template_in({file.path for file in files}, read),
    )


def read_small(connection: Connection, name: str, relative_path: str) -> bytes | None:
    """One file of the folder; None when it is not there.

    Raises:
        HostError: it can't be read, or has more than `SMALL_BYTES`.
    """
    path = f"{_root(name)}/{relative_path}"
    found = connection.stat(path)
    if found is None or found.is_directory:
        return None
    if found.size_bytes > SMALL_BYTES:
        raise HostError(
            f"{path} has {found.size_bytes} bytes; files of at most {SMALL_BYTES} are copied",
            where=connection.name,
            next_step="look whether this is the file that its name says",
        )
    return connection.get(path)


def content_revision(files: Iterable[CheckpointFile]) -> str:
    """`sha256:<hex>` over the content of a checkpoint; see `fetch_checkpoint`."""
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.path.encode()):
        digest.update(f"{file.path} {file.size_bytes} {file.sha256}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def _root(name: str) -> str:
    return str(PurePosixPath(name))


def _reader(connection: Connection, name: str) -> Callable[[str], bytes | None]:
    return lambda relative_path: read_small(connection, name, relative_path)


def _check_folder(connection: Connection, name: str) -> None:
    found = connection.stat(_root(name))
    if found is None or not found.is_directory:
        raise FileMissing(
            f"{name} is not there" if found is None else f"{name} is a file; expected a folder",
            where=connection.name,
            next_step=f"put the checkpoint there, or name its folder on {connection.name}",
        )


def _listed(connection: Connection, name: str) -> list[HostFile]:
    """Every file below a folder, links followed, without what is hidden (`.cache`, `.git`)."""
    argv = ("find", "-L", _root(name), "-mindepth", "1", "-name", ".*", "-prune", "-o")
    tests = ("(", "-type", "f", "-o", "-type", "l", ")", "-printf", _LIST)
    done = connection.run((*argv, *tests), timeout_s=_LIST_TIMEOUT_S)
    files = []
    for entry in done.stdout.decode("utf-8", "replace").split("\0")[:-1]:
        kind, size, modified, path = entry.split(" ", 3)
        if kind == "l":
            raise HostError(
                f"{name}/{path} is a link to nothing",
                where=connection.name,
                next_step="fetch the checkpoint again, or remove the link",
            )
        files.append(HostFile(f"{_root(name)}/{path}", int(size), modified))
    return files


def _hashed(
    connection: Connection, name: str, files: list[HostFile], cache: Path, progress: Progress
) -> tuple[CheckpointFile, ...]:
    hashes = hash_files(connection, files, HashCache(cache / HASH_FILE), progress)
    start = len(_root(name)) + 1
    entries = (
        CheckpointFile(path=file.path[start:], size_bytes=file.size_bytes, sha256=sha256)
        for file, sha256 in hashes.items()
    )
    return tuple(sorted(entries, key=lambda entry: entry.path))

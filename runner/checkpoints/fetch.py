"""The way in: a checkpoint by name, pinned, from a folder on a host or from a model hub."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath

from runner.checkpoints.folder import read_folder, read_small
from runner.checkpoints.hub import hub_of_environment, read_hub, read_hub_file
from runner.errors import UsageError
from runner.models.checkpoint import Checkpoint
from runner.transport.base import Connection

Progress = Callable[[str], None]


def _silent(text: str) -> None:
    """Nobody is told."""


def fetch_checkpoint(
    name: str,
    *,
    connection: Connection | None,
    revision: str | None = None,
    cache: Path,
    progress: Progress = _silent,
) -> Checkpoint:
    """Configuration, files and revision of a checkpoint; weights are never copied.

    An absolute path is a folder on the host of `connection`. Its revision is `sha256:` and the
    SHA-256, in hex, of one line `path size sha256` with a line feed for each file, sorted by the
    bytes of the path: `path` is relative to the folder, `size` in bytes, `sha256` that of the
    content. Links are followed; a file counts unless its name, or that of a folder that it lies
    in, begins with a dot. Hashing happens on the host with `sha256sum`; what was hashed is kept
    under `cache` by host, path, size and time of modification, and not read again.

    Any other name is one of a model hub; `revision` is a branch, tag or commit of it (`main` when
    left out), and that of the result the commit. Only small files are fetched, into the hub's own
    cache on this machine. With HF_HUB_OFFLINE, or when the hub gives no answer, that cache
    answers; `revision_source` then says so, and `files` has only what was fetched before.

    Args:
        connection: to the host of the folder; None is enough for a name of a hub.
        revision: what the checkpoint must be; for a folder `sha256:<hex>`.
        cache: folder on this machine, made when needed; may be deleted at any time.
        progress: gets a line of text whenever something that takes time is done.

    Raises:
        FileMissing: no such folder, or no config.json in it.
        SpecError: config.json is not a JSON object.
        UsageError: no such name or revision, a gated or private model, another content than
            `revision`, a model that is not in the cache of an offline machine.
        HostError: the host or the hub can't be asked.
    """
    if not _is_folder(name):
        return read_hub(hub_of_environment(), name, revision=revision, progress=progress)
    return read_folder(
        _needed(connection, name), name, revision=revision, cache=cache, progress=progress
    )


def fetch_small_file(
    name: str,
    relative_path: str,
    *,
    connection: Connection | None,
    revision: str | None = None,
) -> bytes | None:
    """One small file of a checkpoint, such as tokenizer.json; None when it has no such file.

    Args:
        name, connection: see `fetch_checkpoint`.
        revision: of a name on a hub; a folder has one content only, so it does not count there.

    Raises:
        UsageError, HostError: as `fetch_checkpoint`; HostError also for a file that is not small.
        ValueError: `relative_path` leaves the checkpoint.
    """
    path = PurePosixPath(relative_path)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"'{relative_path}' leaves the checkpoint")
    if _is_folder(name):
        return read_small(_needed(connection, name), name, str(path))
    return read_hub_file(hub_of_environment(), name, str(path), revision=revision)


def _is_folder(name: str) -> bool:
    if name.startswith((".", "~")):
        raise UsageError(
            f"'{name}' is neither an absolute path on the host nor a name on a model hub",
            next_step="write the absolute path that it has on the host",
        )
    return name.startswith("/")


def _needed(connection: Connection | None, name: str) -> Connection:
    if connection is None:
        raise UsageError(
            f"{name} is a folder on a host, and no host is asked",
            next_step="name the host with --host, and leave --facts out",
        )
    return connection

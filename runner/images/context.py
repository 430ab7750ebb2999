"""What is sent to the engine for a build: a list of files, and the tar stream made from it.

Names, order, owners, modes and times depend on the content alone, so that the engine finds its
layers again whoever sends them.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.errors import SpecError, UsageError

CA_FOLDER = "ca"
WHEELS_FOLDER = "wheels"
SOURCE_FOLDER = "source"

# 2020-02-02: hatchling's own date for reproducible archives; zip files know none before 1980
_MODIFIED_S = 1_580_601_600
_BLOCK_BYTES = 512
_CHUNK_BYTES = 1 << 20
_NOT_SENT = {"__pycache__", "image.yaml"}
_CA_STEP = "correct --ca-bundle (or RUNNER_CA_BUNDLE)"
_WHEELS_STEP = "correct --wheels (or RUNNER_WHEELS)"
_PACKAGE_SUFFIXES = (".whl", ".tar.gz")
# the text of the README is no part of an image: an edit there must not rebuild anything
_README = b"# runner\n"


@dataclass(frozen=True)
class ContextEntry:
    """A file of the context: content from memory or from `path`; neither means a folder."""

    name: str
    data: bytes | None = None
    path: Path | None = None
    executable: bool = False


def context_entries(
    folder: Path,
    *,
    source: Path | None = None,
    ca_bundle: Path | None = None,
    wheels: Path | None = None,
) -> tuple[ContextEntry, ...]:
    """Everything in an image's `folder`, beside `ca/`, `wheels/` and `source/`.

    Args:
        folder: holds the Dockerfile; hidden files, bytecode and `image.yaml` are not sent.
        source: a project folder (pyproject.toml and runner/) to send as `source/`.
        ca_bundle: PEM file that the image shall trust.
        wheels: folder of wheels that pip may take from; they never reach the finished image.

    Raises:
        SpecError: the folder has no Dockerfile, or the project folder lacks a part.
        UsageError: the bundle or the folder of wheels is not what it should be.
    """
    if not (folder / "Dockerfile").is_file():
        raise SpecError("there is no Dockerfile", where=str(folder))
    entries = [
        *_tree(folder, ""),
        ContextEntry(CA_FOLDER),
        ContextEntry(WHEELS_FOLDER),
    ]
    if ca_bundle is not None:
        entries.append(ContextEntry(f"{CA_FOLDER}/extra-ca.crt", data=_bundle(ca_bundle)))
    if wheels is not None:
        entries += _wheels(wheels)
    if source is not None:
        entries += _source(source)
    return tuple(sorted(entries, key=lambda entry: entry.name))


def _tree(root: Path, prefix: str) -> Iterator[ContextEntry]:
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        hidden = any(part.startswith(".") for part in parts)
        if hidden or _NOT_SENT & set(parts) or path.suffix == ".pyc":
            continue
        name = prefix + "/".join(parts)
        if path.is_dir():
            yield ContextEntry(name)
        elif path.is_file():
            yield ContextEntry(name, path=path, executable=bool(path.stat().st_mode & 0o100))


def _bundle(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"the CA bundle can't be read: {error.strerror}", where=str(path), next_step=_CA_STEP
        ) from error
    if b"-----BEGIN CERTIFICATE-----" not in data:
        raise UsageError(
            "the CA bundle holds no certificate in PEM form", where=str(path), next_step=_CA_STEP
        )
    return data


def _wheels(folder: Path) -> list[ContextEntry]:
    if not folder.is_dir():
        raise UsageError(
            "the folder of wheels does not exist", where=str(folder), next_step=_WHEELS_STEP
        )
    found = [path for path in folder.iterdir() if path.name.endswith(_PACKAGE_SUFFIXES)]
    if not found:
        raise UsageError(
            "the folder of wheels holds no .whl and no .tar.gz",
            where=str(folder),
            next_step=_WHEELS_STEP,
        )
    return [ContextEntry(f"{WHEELS_FOLDER}/{path.name}", path=path) for path in found]


def _source(project: Path) -> list[ContextEntry]:
    pyproject, package = project / "pyproject.toml", project / "runner"
    for part in (pyproject, package / "__init__.py"):
        if not part.is_file():
            raise SpecError(
                f"'{part.name}' is missing, and the image is built from the runner package",
                where=str(part),
                next_step="run from a clone of runner, beside whose images/ the package lies",
            )
    return [
        ContextEntry(SOURCE_FOLDER),
        ContextEntry(f"{SOURCE_FOLDER}/pyproject.toml", path=pyproject),
        ContextEntry(f"{SOURCE_FOLDER}/README.md", data=_README),
        ContextEntry(f"{SOURCE_FOLDER}/runner"),
        *_tree(package, f"{SOURCE_FOLDER}/runner/"),
    ]


def tar_stream(entries: Iterable[ContextEntry]) -> Iterator[bytes]:
    """The tar archive of these entries in chunks of at most 1 MiB; files are read as it goes.

    Raises:
        UsageError: a file shrank or vanished while it was sent.
    """
    sent = 0
    for entry in entries:
        for part in _member(entry):
            sent += len(part)
            yield part
    # tar ends with two empty blocks and is padded to a full record
    end = 2 * _BLOCK_BYTES
    end += -(sent + end) % tarfile.RECORDSIZE
    yield b"\0" * end


def _member(entry: ContextEntry) -> Iterator[bytes]:
    info = tarfile.TarInfo(entry.name)
    info.mtime = _MODIFIED_S
    if entry.data is None and entry.path is None:
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        yield info.tobuf(tarfile.GNU_FORMAT)
        return
    info.mode = 0o755 if entry.executable else 0o644
    try:
        info.size = len(entry.data) if entry.data is not None else _size(entry)
        yield info.tobuf(tarfile.GNU_FORMAT)
        yield from _content(entry, info.size)
    except OSError as error:
        raise UsageError(f"can't be sent with the build: {error}", where=str(entry.path)) from error
    yield b"\0" * (-info.size % _BLOCK_BYTES)


def _size(entry: ContextEntry) -> int:
    assert entry.path is not None
    return entry.path.stat().st_size


def _content(entry: ContextEntry, size: int) -> Iterator[bytes]:
    if entry.data is not None:
        yield entry.data
        return
    assert entry.path is not None
    with entry.path.open("rb") as file:
        left = size
        while left:
            chunk = file.read(min(left, _CHUNK_BYTES))
            if not chunk:
                raise UsageError("shrank while it was sent; try again", where=str(entry.path))
            left -= len(chunk)
            yield chunk


def content_sha256(entries: Iterable[ContextEntry], arguments: Mapping[str, str]) -> str:
    """Hash of what an image is made from: its own files, the package's and the arguments.

    The CA bundle and the wheels are left out: they belong to the machine, not to the recipe.
    """
    machine = (f"{CA_FOLDER}/", f"{WHEELS_FOLDER}/")
    whole = hashlib.sha256()
    for entry in entries:
        if entry.name.startswith(machine):
            continue
        content = hashlib.sha256(b"".join(_member(entry))).hexdigest()
        whole.update(f"{entry.name}\0{content}\n".encode())
    for key in sorted(arguments):
        whole.update(f"{key}={arguments[key]}\n".encode())
    return whole.hexdigest()

"""Files that appear whole: temporary name in the same folder, fsync, `os.replace`."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from runner.errors import ArtifactError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the file system refuses inside the block into an error about `path`.

    Raises:
        ArtifactError: with the reason and where to look.
    """
    try:
        yield
    except OSError as error:
        raise ArtifactError(
            f"can't be written: {error.strerror or error}",
            where=str(path),
            next_step=f"look at free space and permissions: df -h {path.parent}",
        ) from error


def write_atomic(path: Path, data: bytes | str, *, mode: int = 0o644) -> None:
    """Write a file whole: a reader sees the old content or all of the new, also after a crash.

    Text is written as UTF-8. The folder must exist; `mode` is subject to the umask.

    Raises:
        ArtifactError: the file can't be written; what was there before is untouched.
    """
    content = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with writing(path):
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def write_json(path: Path, value: BaseModel | Any) -> None:
    """Write a model or plain JSON data, indented, with a newline at the end.

    Raises:
        ArtifactError: the value is not JSON (NaN and Infinity are not), or can't be written.
    """
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    try:
        text = json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False)
        data = text.encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise ArtifactError(
            f"not writable as JSON: {error}",
            where=str(path),
            next_step="leave a figure that does not exist out, or write null",
        ) from error
    write_atomic(path, data)


def sync_folder(folder: Path) -> None:
    """Make renames inside a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

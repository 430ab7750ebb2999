"""Files beside the recipes: one writer at a time, and each file whole."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.errors import SpecError


def replace_whole(path: Path, text: str) -> None:
    """Put text in the place of a file, which readers see old or new.

    Raises:
        SpecError: it can't be written.
    """
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
        temporary = None
    except OSError as error:
        raise SpecError(f"can't be written: {error.strerror}", where=str(path)) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


@contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """One writer at a time: the folder itself is locked, so that no file is left behind.

    Raises:
        SpecError: it can't be opened.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise SpecError(f"can't be opened: {error.strerror}", where=str(folder)) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)

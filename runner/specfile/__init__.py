"""YAML files that people write -> models, with every problem of a file told at once.

    host_file = load_spec(Path("hosts.yaml"), Inventory)

Problems read `file:line:column: key.path: message`, or `--set key=…: message` for an override.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from runner.errors import SpecError
from runner.specfile.overrides import Override, apply_overrides
from runner.specfile.reading import read_yaml
from runner.specfile.tree import Document, Problem, report
from runner.specfile.validation import validate
from runner.specfile.vocabulary import nearest

__all__ = [
    "Document",
    "Override",
    "Problem",
    "document_of",
    "load_spec",
    "load_text",
    "load_with_origins",
    "nearest",
    "read_document",
    "read_text_file",
    "report",
    "validate",
]

M = TypeVar("M", bound=BaseModel)


def load_spec(path: Path, model: type[M], overrides: Sequence[str] = ()) -> M:
    """The model that a YAML file describes.

    Args:
        path: the file.
        model: what it should be.
        overrides: `key.path=value` texts, values in YAML, applied in order.

    Raises:
        SpecError: the file can't be read or is wrong; every problem is in `problems`.
        UsageError: an override is not `key=value`.
    """
    return validate(read_document(path, overrides), model)


def load_text(text: str, name: str, model: type[M], overrides: Sequence[str] = ()) -> M:
    """Like `load_spec`, for text at hand; `name` stands for the file in messages."""
    return validate(document_of(text, name, overrides), model)


def load_with_origins(
    path: Path, model: type[M], overrides: Sequence[str] = ()
) -> tuple[M, Mapping[str, str]]:
    """Like `load_spec`, and where each value came from.

    The mapping has dotted key -> `file:line` or `--set key` for what the user gave, items of
    lists included (`matrix.concurrency.0`); a key that is absent there is a default.
    """
    document = read_document(path, overrides)
    return validate(document, model), document.origins()


def document_of(text: str, name: str, overrides: Sequence[str | Override] = ()) -> Document:
    """Like `read_document`, for text at hand; `name` stands for the file in messages."""
    document = read_yaml(text, name)
    apply_overrides(document, overrides)
    return document


def read_document(path: Path, overrides: Sequence[str | Override] = ()) -> Document:
    """A file with its overrides, not validated yet: for files whose model depends on a key.

    Raises:
        SpecError: the file can't be read. What is wrong inside it is told by `validate`.
        UsageError: an override is not `key=value`.
    """
    return document_of(read_text_file(path), str(path), overrides)


def read_text_file(path: Path) -> str:
    """The text of a UTF-8 file, a byte order mark taken off.

    Raises:
        SpecError: there is no such file, it can't be read, or it is not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise SpecError(
            f"byte 0x{error.object[error.start]:02x} in line {line} is not UTF-8 text",
            where=str(path),
            next_step=f"save {path} as UTF-8",
        ) from error
    except OSError as error:
        raise SpecError(
            f"can't be read: {error.strerror or error}",
            where=str(path),
            next_step="check the path",
        ) from error

"""The small prompt sets that come with the project, as datasets."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from runner.errors import SpecError
from runner.models.dataset import SourceKind

_FOLDER = Path("jobs/prompts")
_LICENCE = "Apache-2.0"


@dataclass(frozen=True)
class ShippedSet:
    """One set: a JSONL file of the project that needs no conversion."""

    name: str
    title: str
    file_name: str
    kind: SourceKind = SourceKind.SHIPPED
    licence: str = _LICENCE

    @property
    def path(self) -> Path:
        """The file: below the current folder, or in the clone that this program runs from.

        Raises:
            SpecError: it is in neither.
        """
        folders = (_FOLDER, Path(__file__).parents[2] / _FOLDER)
        for folder in folders:
            if (folder / self.file_name).is_file():
                return folder / self.file_name
        raise SpecError(
            f"dataset '{self.name}': {_FOLDER / self.file_name} is neither here nor beside the "
            "program",
            next_step="run the command in a clone of the project, or name a JSONL file of your own",
        )

    @property
    def source(self) -> str:
        """Where the rows come from, as a record says it."""
        return f"{_FOLDER / self.file_name} of the project"

    def read(self) -> bytes:
        """The JSONL. Raises a SpecError when the file is not there or can't be read."""
        path = self.path
        try:
            return path.read_bytes()
        except OSError as error:
            raise SpecError(
                f"dataset '{self.name}' can't be read: {error.strerror}", where=str(path)
            ) from error

    def revision(self) -> str:
        """What pins the set: the hash of its content."""
        return f"sha256:{hashlib.sha256(self.read()).hexdigest()}"


SHIPPED = (
    ShippedSet("code", "Beginnings of small Python programs to go on with", "code.jsonl"),
    ShippedSet("chat", "Short everyday questions", "chat.jsonl"),
)

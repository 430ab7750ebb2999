"""Fetched datasets on this machine: one folder each, whole or absent."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from runner.errors import SpecError
from runner.models.dataset import DatasetRecord

ROWS, RECORD, LICENCE = "rows.jsonl", "dataset.json", "LICENCE"


class DatasetCache:
    """The folder of fetched datasets. Reading never writes."""

    def __init__(self, root: Path):
        self.root = root

    def record(self, name: str) -> DatasetRecord | None:
        """What is known of a fetched dataset; None when it was not fetched.

        Raises:
            SpecError: it is there and can't be read.
        """
        path = self.root / name / RECORD
        try:
            return DatasetRecord.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise SpecError(
                "is not the record of a dataset",
                where=str(path),
                next_step=f"runner datasets fetch {name}",
            ) from error

    def rows_file(self, name: str) -> Path:
        """The JSONL of a fetched dataset, verified against its record.

        Raises:
            SpecError: it was not fetched, or was changed since.
        """
        record = self.record(name)
        path = self.root / name / ROWS
        if record is None or not path.is_file():
            raise SpecError(
                f"dataset '{name}' is not fetched", next_step=f"runner datasets fetch {name}"
            )
        with path.open("rb") as data:
            found = hashlib.file_digest(data, "sha256").hexdigest()
        if found != record.sha256:
            raise SpecError(
                f"dataset '{name}' was changed after it was fetched",
                where=str(path),
                next_step=f"runner datasets fetch {name}",
            )
        return path

    def put(
        self, rows: Iterable[Mapping[str, Any]], *, licence_text: str | None = None, **facts: Any
    ) -> DatasetRecord:
        """Write a dataset whole; an older one of the same name is replaced.

        Args:
            rows: in our own layout; a row without an id is called by its number, from 1.
            facts: fields of the record that rows don't tell.

        Raises:
            SpecError: there are no rows, or the folder can't be written.
        """
        name = str(facts["name"])
        temporary: Path | None = None
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            temporary = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=self.root))
            record = _write(temporary, rows, facts)
            if licence_text is not None:
                (temporary / LICENCE).write_text(licence_text, encoding="utf-8")
            temporary.chmod(0o755)
            target = self.root / name
            if target.exists():
                shutil.rmtree(target)
            temporary.replace(target)
            temporary = None
            return record
        except OSError as error:
            raise SpecError(
                f"can't be written: {error.strerror or error}",
                where=str(self.root),
                next_step="set RUNNER_DATASETS to a folder that can be written",
            ) from error
        finally:
            if temporary is not None:
                shutil.rmtree(temporary, ignore_errors=True)


def _write(
    folder: Path, rows: Iterable[Mapping[str, Any]], facts: Mapping[str, Any]
) -> DatasetRecord:
    digest = hashlib.sha256()
    count = requests = 0
    categories: Counter[str] = Counter()
    with (folder / ROWS).open("wb") as file:
        for number, row in enumerate(rows, start=1):
            whole = {"id": str(number), **row}
            line = json.dumps(whole, ensure_ascii=False).encode() + b"\n"
            digest.update(line)
            file.write(line)
            count += 1
            requests += len(row["turns"]) if "turns" in row else 1
            if row.get("category"):
                categories[str(row["category"])] += 1
        file.flush()
        os.fsync(file.fileno())
    if not count:
        raise SpecError(f"dataset '{facts['name']}' has no rows")
    record = DatasetRecord(
        sha256=digest.hexdigest(),
        rows=count,
        requests=requests,
        categories=dict(sorted(categories.items())),
        fetched_at=datetime.now(UTC).isoformat(timespec="seconds"),
        **facts,
    )
    (folder / RECORD).write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return record

"""Rows of dataset repositories on the Hugging Face hub, pinned to a commit."""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from runner.datasets.entries import HubSource
from runner.datasets.rows import Fetched, json_rows
from runner.errors import SpecError


def fetch_hub(name: str, source: HubSource) -> Fetched:
    """The rows of every file that matches the pattern, in the order of the file names.

    Files come from the hub's own cache on this machine where it has them.

    Raises:
        SpecError: the repository or the files can't be had, or parquet can't be read here.
    """
    from huggingface_hub import HfApi, errors, hf_hub_download

    # the base of its own errors and of those of the HTTP client that it brings
    no_answer: type[Exception] = errors.HTTPError  # type: ignore[attr-defined]

    try:
        info = HfApi().dataset_info(source.repository)
        found = [item.rfilename for item in info.siblings or []]
        names = sorted(path for path in found if fnmatch.fnmatch(path, source.pattern))
        if not names:
            raise SpecError(
                f"dataset '{name}': {source.repository} has no file {source.pattern}",
                next_step="it may have been laid out anew; name a JSONL file of your own in the "
                "job",
            )
        files = [
            Path(hf_hub_download(source.repository, path, repo_type="dataset", revision=info.sha))
            for path in names
        ]
    except (no_answer, errors.OfflineModeIsEnabled, OSError, ValueError) as error:
        lines = str(error).strip().splitlines()
        raise SpecError(
            f"dataset '{name}': {source.repository} can't be had from the hub: "
            f"{lines[0][:200] if lines else type(error).__name__}",
            next_step="check the network and HF_TOKEN (some sets ask for consent on their page); "
            f"or bring the rows: runner datasets fetch {name} --from FILE",
        ) from error
    return Fetched(read_files(name, files), info.sha or "unknown", _digest(files))


def fetch_files(name: str, files: Sequence[Path]) -> Fetched:
    """Rows that the user brought: JSONL or parquet in the layout of the source.

    Raises:
        SpecError: a file is not there.
    """
    for file in files:
        if not file.is_file():
            raise SpecError(f"dataset '{name}': there is no file", where=str(file))
    digest = _digest(files)
    return Fetched(read_files(name, files), f"sha256:{digest}", digest)


def read_files(name: str, files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Rows of JSONL and parquet files, one at a time."""
    for file in files:
        if file.suffix == ".parquet":
            yield from _parquet(name, file)
        else:
            with file.open(encoding="utf-8", newline="\n") as lines:
                yield from json_rows(lines, str(file))


def _parquet(name: str, file: Path) -> Iterator[dict[str, Any]]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise SpecError(
            f"dataset '{name}' comes as parquet, which needs pyarrow",
            next_step="pip install 'runner[datasets]', then repeat the command",
        ) from error
    with parquet.ParquetFile(file) as table:
        for batch in table.iter_batches(batch_size=64):
            yield from batch.to_pylist()


def _digest(files: Sequence[Path]) -> str:
    """One hash over the content of all files, in order."""
    total = hashlib.sha256()
    for file in files:
        with file.open("rb") as data:
            total.update(hashlib.file_digest(data, "sha256").digest())
    return total.hexdigest()

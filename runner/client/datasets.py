"""Datasets by name or file, as planning and the command line want them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from runner.datasets.cache import DatasetCache
from runner.datasets.catalogue import CATALOGUE, GENERATED
from runner.datasets.fetch import fetch_dataset, generate_mrcr, keep_shipped
from runner.datasets.shipped import SHIPPED
from runner.datasets.tokens import TokenCounter
from runner.errors import SpecError, UsageError
from runner.jobs import PromptRows, read_prompts
from runner.models.dataset import DatasetRecord, SourceKind
from runner.specfile import nearest

Progress = Callable[[str], None]

_SHIPPED = {item.name: item for item in SHIPPED}


@dataclass(frozen=True)
class LoadedDataset:
    """A dataset that is at hand."""

    record: DatasetRecord
    rows: PromptRows


@dataclass(frozen=True)
class Offered:
    """One line of the catalogue; `record` is None for what was not fetched."""

    name: str
    title: str
    kind: SourceKind
    source: str
    licence: str
    restricted: bool
    record: DatasetRecord | None


def offered(cache: DatasetCache) -> tuple[Offered, ...]:
    """The whole catalogue, and what of it was fetched.

    Raises:
        SpecError: a record of the cache can't be read.
    """
    entries = [
        Offered(
            entry.name,
            entry.title,
            entry.kind,
            entry.source.text,
            entry.licence,
            entry.restricted,
            cache.record(entry.name),
        )
        for entry in CATALOGUE.values()
    ]
    generated = Offered(
        GENERATED,
        "MRCR-shaped, own text, made when a plan is made",
        SourceKind.GENERATED,
        "runner's own generator",
        "Apache-2.0",
        False,
        cache.record(GENERATED),
    )
    shipped = [
        Offered(item.name, item.title, item.kind, item.source, item.licence, False, None)
        for item in SHIPPED
    ]
    return (*entries, generated, *shipped)


def fetch(
    cache: DatasetCache, name: str, progress: Progress, brought: Sequence[Path] = ()
) -> DatasetRecord:
    """Fetch one dataset of the catalogue.

    Raises:
        UsageError: there is no such dataset, or nothing of it to fetch.
        SpecError: it can't be had.
    """
    if name == GENERATED:
        raise UsageError(
            f"'{name}' is made when a plan is made, with the served model's tokenizer",
            next_step="name it under datasets of a job",
        )
    if name in _SHIPPED:
        return keep_shipped(cache, name)
    _check_name(name)
    return fetch_dataset(cache, name, progress, brought=brought)


def load_dataset(
    cache: DatasetCache,
    name_or_path: str,
    *,
    fetch: bool,
    progress: Progress,
    counter: TokenCounter | None = None,
    thinking: bool | None = None,
) -> LoadedDataset:
    """A dataset with its rows; their ids are `<dataset>/<row>`.

    Args:
        name_or_path: of the catalogue, or a JSONL file.
        fetch: get it where it is not here.
        counter: of the served model, for sets that are made with it.

    Raises:
        UsageError: there is no such dataset.
        SpecError: it is not fetched, or can't be had, or is wrong.
    """
    if name_or_path.endswith(".jsonl"):
        return _file(Path(name_or_path))
    name = name_or_path
    if name in _SHIPPED:
        record = keep_shipped(cache, name)
    elif name == GENERATED:
        record = generate_mrcr(cache, counter, thinking)
    else:
        _check_name(name)
        known = cache.record(name)
        if known is None and fetch:
            known = fetch_dataset(cache, name, progress)
        if known is None:
            raise SpecError(
                f"dataset '{name}' is not fetched", next_step=f"runner datasets fetch {name}"
            )
        record = known
    return LoadedDataset(record, read_prompts(cache.rows_file(name), name))


def _file(path: Path) -> LoadedDataset:
    rows = read_prompts(path, path.stem)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    record = DatasetRecord(
        name=path.stem,
        title=path.name,
        kind=SourceKind.FILE,
        source=path.name,
        revision=f"sha256:{digest}",
        licence="unknown",
        sha256=digest,
        rows=len(rows.rows),
        requests=rows.requests,
        fetched_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return LoadedDataset(record, rows)


def _check_name(name: str) -> None:
    if name in CATALOGUE:
        return
    known = (*CATALOGUE, GENERATED, *_SHIPPED)
    near = nearest(name, known)
    raise UsageError(
        f"there is no dataset '{name}'",
        next_step=f"did you mean '{near}'?" if near else "runner datasets list",
    )

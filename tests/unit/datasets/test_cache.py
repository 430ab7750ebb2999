"""Datasets on disk: whole or absent, verified, and chosen from by a seed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.client.datasets import fetch, load_dataset, offered
from runner.datasets.cache import DatasetCache
from runner.datasets.fetch import fetch_dataset
from runner.datasets.subset import subset
from runner.errors import SpecError, UsageError
from runner.models.dataset import SourceKind

FACTS: dict[str, Any] = {
    "name": "humaneval",
    "title": "t",
    "kind": SourceKind.PACKAGE,
    "source": "a package",
    "revision": "1.0",
    "licence": "MIT",
}


def put(cache: DatasetCache, *rows: dict[str, Any], **facts: Any) -> Any:
    return cache.put(iter(rows), **{**FACTS, **facts})


def quiet(_: str) -> None:
    return


def test_a_dataset_is_kept_with_its_record(tmp_path: Path) -> None:
    cache = DatasetCache(tmp_path)
    assert cache.record("humaneval") is None
    record = cache.put(
        iter([{"id": "a", "text": "x", "category": "code"}, {"turns": ["b", "c"]}]),
        licence_text="as is",
        **FACTS,
    )
    assert (record.rows, record.requests, record.categories) == (2, 3, {"code": 1})
    assert cache.record("humaneval") == record
    lines = cache.rows_file("humaneval").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["a", "2"]
    assert (tmp_path / "humaneval" / "LICENCE").read_text() == "as is"


def test_an_attempt_that_fails_leaves_the_older_copy(tmp_path: Path) -> None:
    cache = DatasetCache(tmp_path)
    put(cache, {"text": "old"})

    def broken() -> Iterator[dict[str, Any]]:
        yield {"text": "new"}
        raise SpecError("torn")

    with pytest.raises(SpecError, match="torn"):
        cache.put(broken(), **FACTS)
    assert "old" in cache.rows_file("humaneval").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["humaneval"]
    with pytest.raises(SpecError, match="has no rows"):
        put(cache)


def test_rows_that_were_changed_are_refused(tmp_path: Path) -> None:
    cache = DatasetCache(tmp_path)
    put(cache, {"text": "a"})
    with (tmp_path / "humaneval" / "rows.jsonl").open("a") as file:
        file.write('{"id": "x", "text": "b"}\n')
    with pytest.raises(SpecError, match="was changed after it was fetched"):
        load_dataset(cache, "humaneval", fetch=False, progress=quiet)


def test_what_is_not_here_says_how_to_get_it(tmp_path: Path) -> None:
    cache = DatasetCache(tmp_path)
    with pytest.raises(SpecError) as caught:
        load_dataset(cache, "humaneval", fetch=False, progress=quiet)
    assert caught.value.next_step == "runner datasets fetch humaneval"
    with pytest.raises(UsageError) as unknown:
        load_dataset(cache, "humanevl", fetch=False, progress=quiet)
    assert unknown.value.next_step == "did you mean 'humaneval'?"
    with pytest.raises(SpecError, match="tokenizer"):
        load_dataset(cache, "mrcr-synthetic", fetch=True, progress=quiet)
    with pytest.raises(UsageError, match="when a plan is made"):
        fetch(cache, "mrcr-synthetic", quiet)


def test_ids_begin_with_the_name(tmp_path: Path) -> None:
    cache = DatasetCache(tmp_path)
    put(cache, {"id": "7", "text": "a", "answer": "b"})
    loaded = load_dataset(cache, "humaneval", fetch=False, progress=quiet)
    assert [(row.id, row.answer) for row in loaded.rows.rows] == [("humaneval/7", "b")]


def test_a_file_of_the_user(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text('{"text": "a"}\n{"text": "b"}\n')
    loaded = load_dataset(DatasetCache(tmp_path / "c"), str(file), fetch=False, progress=quiet)
    assert (loaded.record.kind, loaded.record.rows) == (SourceKind.FILE, 2)
    assert loaded.record.revision == f"sha256:{loaded.record.sha256}"
    assert [row.id for row in loaded.rows.rows] == ["mine/1", "mine/2"]


def test_brought_rows_are_converted_and_placeholders_kept_out(tmp_path: Path) -> None:
    cache = DatasetCache(tmp_path / "c")
    rows = [
        {"question_id": "1", "category": "coding", "turns": ["write"]},
        {"question_id": "2", "category": "math", "turns": ["add", "again"]},
    ]
    file = tmp_path / "prepared.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    record = fetch_dataset(cache, "speed-bench-qualitative", quiet, brought=[file])
    assert (record.kind, record.rows, record.requests) == (SourceKind.FILE, 2, 3)
    assert record.restricted
    only = fetch_dataset(cache, "speed-bench-qualitative-math", quiet, brought=[file])
    assert (only.rows, only.categories) == (1, {"math": 1})
    rows[0]["turns"] = ["FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING X"]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(SpecError, match="placeholder"):
        fetch_dataset(cache, "speed-bench-qualitative", quiet, brought=[file])
    kept = cache.record("speed-bench-qualitative")
    assert kept == record


def test_a_row_in_another_layout_is_told(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"question": "a"}\n')
    with pytest.raises(SpecError, match="row 1 is not laid out as expected: KeyError"):
        fetch_dataset(DatasetCache(tmp_path / "c"), "gsm8k", quiet, brought=[file])


def test_the_catalogue_says_what_is_here(tmp_path: Path) -> None:
    cache = DatasetCache(tmp_path)
    put(cache, {"text": "a"})
    here = {item.name: item.record is not None for item in offered(cache)}
    assert here["humaneval"]
    assert not here["mt-bench"]
    assert {"mrcr-synthetic", "code", "chat"} <= set(here)


@dataclass(frozen=True)
class Row:
    id: str


ROWS = tuple(Row(f"s/{number}") for number in range(40))


def test_a_subset_is_the_same_for_the_same_seed() -> None:
    chosen, text = subset(ROWS, 5, 42)
    assert subset(ROWS, 5, 42)[0] == chosen
    assert subset(ROWS, 5, 43)[0] != chosen
    assert text == "5 of 40 rows, seed 42"
    assert subset(ROWS, 40, 1) == (ROWS, "all 40 rows")
    assert subset(ROWS, 99, 1) == (ROWS, "all 40 rows")


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 9))
def test_a_smaller_choice_is_part_of_a_larger_one(one: int, other: int, seed: int) -> None:
    small, large = sorted((one, other))
    first, second = subset(ROWS, small, seed)[0], subset(ROWS, large, seed)[0]
    assert set(first) <= set(second)
    assert [row for row in ROWS if row in first] == list(first)

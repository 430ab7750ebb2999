"""Datasets out of packages, fetched as a user fetches them: the real rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.client.datasets import load_dataset
from runner.datasets.cache import DatasetCache


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> DatasetCache:
    return DatasetCache(tmp_path_factory.mktemp("datasets"))


def loaded(cache: DatasetCache, name: str):
    return load_dataset(cache, name, fetch=True, progress=lambda _: None)


def test_humaneval(cache: DatasetCache) -> None:
    dataset = loaded(cache, "humaneval")
    rows = dataset.rows.rows
    assert (dataset.record.rows, dataset.record.requests) == (164, 164)
    assert dataset.record.revision == "1.0.3"
    assert rows[0].id == "humaneval/HumanEval_0"
    assert rows[0].content.startswith("from typing import List\n\n\ndef has_close_elements(")
    assert "MIT" in (cache.root / "humaneval" / "LICENCE").read_text()


def test_mt_bench(cache: DatasetCache) -> None:
    dataset = loaded(cache, "mt-bench")
    assert (dataset.record.rows, dataset.record.requests) == (80, 160)
    assert len(dataset.record.categories) == 8
    assert set(dataset.record.categories.values()) == {10}
    first = dataset.rows.rows[0]
    assert (first.id, first.turns, first.category) == ("mt-bench/81", 2, "writing")
    assert first.content[0].startswith("Compose an engaging travel blog post")


def test_a_hundred_rows_of_gsm8k(cache: DatasetCache) -> None:
    dataset = loaded(cache, "gsm8k-100")
    first = dataset.rows.rows[0]
    assert dataset.record.rows == 100
    assert (first.id, first.answer) == ("gsm8k-100/test-0013", "18")
    assert first.content.startswith("Melanie is a door-to-door saleswoman.")


def test_what_was_fetched_is_not_fetched_again(
    cache: DatasetCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(cache, "humaneval")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("subprocess.run", None)
    assert loaded(cache, "humaneval").record.rows == 164
    assert isinstance(cache.rows_file("humaneval"), Path)

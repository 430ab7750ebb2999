"""The project's own prompt sets can be had as datasets, from anywhere."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from runner.datasets.shipped import SHIPPED, ShippedSet
from runner.errors import SpecError
from runner.jobs import read_prompts
from runner.models.dataset import SourceKind

CLONE = Path(__file__).parents[3]


@pytest.mark.parametrize("shipped", SHIPPED, ids=[shipped.name for shipped in SHIPPED])
def test_a_shipped_set_reads_as_24_prompts(
    shipped: ShippedSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shipped.path == CLONE / "jobs" / "prompts" / f"{shipped.name}.jsonl"
    assert len(read_prompts(shipped.path, shipped.name).rows) == 24
    assert shipped.read() == shipped.path.read_bytes()
    assert shipped.kind is SourceKind.SHIPPED
    assert shipped.source == f"jobs/prompts/{shipped.name}.jsonl of the project"
    assert f'license = "{shipped.licence}"' in (CLONE / "pyproject.toml").read_text()


def test_names_are_those_of_the_files() -> None:
    assert [shipped.name for shipped in SHIPPED] == ["code", "chat"]


def test_the_current_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "jobs" / "prompts"
    folder.mkdir(parents=True)
    (folder / "chat.jsonl").write_bytes(b'{"text": "hello"}\n')
    monkeypatch.chdir(tmp_path)
    code, chat = SHIPPED
    assert chat.read() == b'{"text": "hello"}\n'
    assert chat.revision() == f"sha256:{hashlib.sha256(chat.read()).hexdigest()}"
    assert len(code.read().splitlines()) == 24


def test_a_set_that_is_nowhere_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError) as caught:
        ShippedSet("lost", "Lost", "lost.jsonl").read()
    assert caught.value.what == (
        "dataset 'lost': jobs/prompts/lost.jsonl is neither here nor beside the program"
    )

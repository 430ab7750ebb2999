"""The tiny model: made whole beside its target or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.errors import EngineError, UsageError
from runner.images import TinySize, make_checkpoint, tiny_recipe
from runner.images.tiny import Recipe, eagle3_recipe, mtp_recipe

if TYPE_CHECKING:
    from tests.unit.images.conftest import PlayedEngine

FILES = ("config.json", "model.safetensors", "tokenizer.json")


def _make(played: PlayedEngine, target: Path, size: TinySize = TinySize.TINY) -> bool:
    played.answer("rm")
    return _make_by(played, target, tiny_recipe(size))


def _make_by(played: PlayedEngine, target: Path, recipe: Recipe) -> bool:
    image = "runner/vllm-cpu:1"
    return make_checkpoint(
        played.connection, played.host, image, str(target), recipe, lambda _: None
    )


def _plays_training(played: PlayedEngine, parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda _: "0a0b")
    made = tuple(str(parent / ".tiny-0a0b" / name) for name in FILES)
    played.answer("run", makes=made, stdout="step 25 loss 5.0\n")


def test_it_appears_whole_under_its_name(
    played: PlayedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = tmp_path / "models"
    _plays_training(played, parent, monkeypatch)
    assert _make(played, parent / "tiny", TinySize.SMALL) is True
    assert sorted(path.name for path in (parent / "tiny").iterdir()) == sorted(FILES)
    assert [path.name for path in parent.iterdir()] == ["tiny"]
    run = next(call for call in played.calls() if call[0] == "run")
    assert run[1:7] == ["--rm", "--init", "--name", "runner-tiny-0a0b", "--network", "none"]
    assert run[7] == "--user"
    assert run[9:] == [
        *("--env", "HOME=/tmp", "--volume", f"{parent}/.tiny-0a0b:/out"),
        *("--entrypoint", "python", "runner/vllm-cpu:1"),
        *("/opt/runner/tiny_model.py", "/out", "--size", "small"),
    ]


def test_nothing_is_done_where_a_whole_checkpoint_lies(
    played: PlayedEngine, tmp_path: Path
) -> None:
    for name in FILES:
        (tmp_path / name).write_text("x")
    assert _make(played, tmp_path) is False
    assert played.calls() == []


def test_a_folder_with_something_else_is_left_alone(played: PlayedEngine, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("x")
    with pytest.raises(UsageError, match="holds files, but no whole checkpoint"):
        _make(played, tmp_path)
    with pytest.raises(UsageError, match="must be an absolute path"):
        _make(played, Path("models/tiny"))
    assert played.calls() == []


def test_a_failure_leaves_nothing_and_tells_the_last_lines(
    played: PlayedEngine, tmp_path: Path
) -> None:
    played.answer("run", stdout="step 25\n", stderr="Killed\n", code=137)
    with pytest.raises(EngineError) as caught:
        _make(played, tmp_path / "models" / "tiny")
    assert "Killed" in caught.value.what
    assert list((tmp_path / "models").iterdir()) == []
    assert played.calls()[-1][:2] == ["rm", "--force"]


def test_a_container_that_ends_well_and_leaves_nothing_is_a_failure(
    played: PlayedEngine, tmp_path: Path
) -> None:
    played.answer("run")
    with pytest.raises(EngineError, match="left no whole checkpoint"):
        _make(played, tmp_path / "models" / "tiny")
    assert list((tmp_path / "models").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "script", "more"),
    [
        ("eagle3", "tiny_eagle3.py", ["--untrained"]),
        ("mtp", "tiny_mtp.py", []),
    ],
)
def test_what_is_made_from_another_checkpoint_reads_that_one(
    played: PlayedEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    script: str,
    more: list[str],
) -> None:
    base = tmp_path / "base"
    recipe = eagle3_recipe(str(base), untrained=True) if name == "eagle3" else mtp_recipe(str(base))
    with pytest.raises(UsageError, match="is no folder with a checkpoint"):
        _make_by(played, tmp_path / "tiny", recipe)
    base.mkdir()
    (base / "config.json").write_text("{}")
    _plays_training(played, tmp_path, monkeypatch)
    played.answer("rm")
    assert _make_by(played, tmp_path / "tiny", recipe) is True
    run = next(call for call in played.calls() if call[0] == "run")
    assert run[13:15] == ["--volume", f"{base}:{base}:ro"]
    assert run[18:] == [f"/opt/runner/{script}", str(base), "/out", *more]

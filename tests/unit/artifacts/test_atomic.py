"""Files appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.artifacts.atomic import write_atomic, write_json
from runner.errors import ArtifactError
from runner.models.manifest import FileEntry


def test_content_is_replaced_and_no_temporary_stays(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    write_atomic(target, b"\x00old")
    write_atomic(target, "néw")
    assert target.read_bytes() == "néw".encode()
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert target.stat().st_mode & 0o777 == 0o644


def test_a_failed_write_keeps_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a.txt"
    write_atomic(target, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ArtifactError, match="No space left on device") as caught:
        write_atomic(target, b"new")
    assert caught.value.where == str(target)
    assert isinstance(caught.value.__cause__, OSError)
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_models_and_plain_data_become_json(tmp_path: Path) -> None:
    write_json(tmp_path / "model.json", FileEntry(path="ü", size_bytes=1, sha256="00"))
    write_json(tmp_path / "plain.json", {"b": [1.5, None]})
    assert (tmp_path / "model.json").read_text() == (
        '{\n  "path": "ü",\n  "size_bytes": 1,\n  "sha256": "00"\n}\n'
    )
    assert (tmp_path / "plain.json").read_text() == '{\n  "b": [\n    1.5,\n    null\n  ]\n}\n'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"x": -float("inf")}, object()])
def test_what_is_no_json_is_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(ArtifactError, match="not writable as JSON"):
        write_json(tmp_path / "x.json", value)
    assert list(tmp_path.iterdir()) == []

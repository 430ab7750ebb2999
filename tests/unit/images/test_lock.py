"""The lock: one entry per host and image, whole on disk, nothing lost."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runner.errors import ImageMissing, SpecError
from runner.images import locked, read_lock, record
from runner.models.image import LockedImage


def _image(name: str, digest: str = "sha256:aa") -> LockedImage:
    return LockedImage(
        name=name,
        reference=f"runner/{name}:1",
        digest=digest,
        built_at="2026-12-01T00:00:00+00:00",
        entrypoint=("vllm", "serve"),
        versions={"torch": "2.13.0+cpu", "vllm": "1"},
    )


def test_what_is_recorded_is_read_back_and_the_newest_stays(tmp_path: Path) -> None:
    path = tmp_path / "lock.yaml"
    assert read_lock(path).hosts == {}
    record(path, "a", _image("one"))
    record(path, "a", _image("two"))
    record(path, "b", _image("one"))
    lock = record(path, "a", _image("one", "sha256:bb"))
    assert read_lock(path) == lock
    assert sorted(lock.hosts["a"]) == ["one", "two"]
    assert locked(lock, "a", "one") == _image("one", "sha256:bb")
    assert locked(lock, "b", "one") == _image("one", "sha256:aa")
    assert [item.name for item in tmp_path.iterdir()] == ["lock.yaml"]


def test_the_file_is_json_below_one_line(tmp_path: Path) -> None:
    path = tmp_path / "lock.yaml"
    record(path, "a", _image("one"))
    head, rest = path.read_text().split("\n", 1)
    assert head == "# written by 'runner images build'; one entry per host and image"
    assert json.loads(rest)["hosts"]["a"]["one"]["digest"] == "sha256:aa"


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock.yaml"
    names = [f"image{number}" for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda name: record(path, "a", _image(name)), names))
    assert sorted(read_lock(path).hosts["a"]) == sorted(names)


def test_a_missing_entry_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(ImageMissing) as caught:
        locked(read_lock(tmp_path / "lock.yaml"), "box", "aiperf")
    assert str(caught.value) == (
        "box: no image 'aiperf' is locked for this host\n"
        "  next: runner images build aiperf --host box"
    )


def test_a_damaged_lock_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "lock.yaml"
    path.write_text("hosts: [\n")
    with pytest.raises(SpecError, match=r"lock\.yaml"):
        read_lock(path)
    with pytest.raises(SpecError, match="can't be opened"):
        record(tmp_path / "absent" / "lock.yaml", "a", _image("one"))

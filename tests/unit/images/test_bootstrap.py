"""A base image made on the host: what is asked first, and that nothing stays behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.errors import EngineError
from runner.images import base_reference, bootstrap_base

if TYPE_CHECKING:
    from tests.unit.images.conftest import PlayedEngine

DEBOOTSTRAP = """#!/bin/sh
echo "I: Retrieving for $1 $2 $3"
mkdir -p "$4/etc" "$4/var/cache/apt/archives" "$4/var/lib/apt/lists"
echo package > "$4/var/cache/apt/archives/a.deb"
echo list > "$4/var/lib/apt/lists/l"
echo system > "$4/etc/os-release"
exit {code}
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for the host's: debootstrap, temporary folders, and a login that is root."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (tmp_path / "var").mkdir()
    _program(folder / "id", "#!/bin/sh\necho 0\n")
    monkeypatch.setenv("PATH", f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin")
    monkeypatch.setattr("runner.images.bootstrap._DEBOOTSTRAP", str(folder / "debootstrap"))
    monkeypatch.setattr("runner.images.bootstrap._TEMPORARY_PARENT", str(tmp_path / "var"))
    return folder


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_the_system_is_made_trimmed_and_imported(
    played: PlayedEngine, tools: Path, tmp_path: Path
) -> None:
    _program(tools / "debootstrap", DEBOOTSTRAP.format(code=0))
    played.answer("import", stdout="sha256:made\n")
    said: list[str] = []
    assert bootstrap_base(played.connection, played.host, said.append) == "runner/base:bookworm"
    assert base_reference() == "runner/base:bookworm"
    (call,) = played.calls()
    assert call[:3] == [
        "import",
        "--change",
        "LABEL dev.runner.image=base dev.runner.versions=debian=bookworm",
    ]
    assert call[3].endswith("/root.tar")
    assert call[4] == "runner/base:bookworm"
    assert said == [
        "making runner/base:bookworm on box with debootstrap",
        "I: Retrieving for --variant=minbase "
        "--include=python3,python3-venv,ca-certificates bookworm",
        "sha256:made",
    ]
    assert list((tmp_path / "var").iterdir()) == []


def test_a_failure_leaves_nothing_behind(played: PlayedEngine, tools: Path, tmp_path: Path) -> None:
    _program(tools / "debootstrap", DEBOOTSTRAP.format(code=7))
    with pytest.raises(EngineError, match=r"failed at '.*debootstrap' \(exit code 7\)"):
        bootstrap_base(played.connection, played.host, lambda _: None)
    assert list((tmp_path / "var").iterdir()) == []
    assert played.calls() == []


def test_a_missing_debootstrap_says_how_to_install_it(played: PlayedEngine, tools: Path) -> None:
    with pytest.raises(EngineError) as caught:
        bootstrap_base(played.connection, played.host, lambda _: None)
    assert caught.value.next_step == (
        "on the host: apt-get install debootstrap (or give --base IMAGE)"
    )


def test_it_needs_root(played: PlayedEngine, tools: Path) -> None:
    _program(tools / "id", "#!/bin/sh\necho 1000\n")
    with pytest.raises(EngineError, match="needs root there"):
        bootstrap_base(played.connection, played.host, lambda _: None)

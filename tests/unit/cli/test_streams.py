"""What happens when nobody reads, or nothing more can be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.host_folder import FolderHost


@pytest.fixture
def inventory(box: FolderHost, tmp_path: Path) -> Path:
    """An inventory whose only host is `box`."""
    return box.inventory_file(tmp_path / "hosts.yaml")


@pytest.mark.parametrize("command", [("hosts", "list"), ("hosts", "list", "--format", "json")])
def test_a_reader_that_has_gone_already_is_no_failed_run(
    inventory: Path, command: tuple[str, ...]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        [sys.executable, "-m", "runner", *command],
        env={**os.environ, "RUNNER_HOSTS": str(inventory)},
        stdout=writing,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).resolve().parents[3],
    ) as client:
        os.close(writing)
        assert client.communicate(timeout=30)[1] == b""
    assert client.returncode == 141


@pytest.mark.parametrize(
    ("line", "code", "out", "err"),
    [
        ("ps >&-", 0, "", "no runs\n"),
        ("bogus 2>&-", 2, "", ""),
        ("--version >/dev/full", 5, "", "error: stdout: can't be written: No space left on device"),
    ],
)
def test_streams_that_are_closed_or_full(
    inventory: Path, line: str, code: int, out: str, err: str
) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$1" -m runner {line}', "sh", sys.executable],
        check=False,
        env={**os.environ, "RUNNER_HOSTS": str(inventory)},
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[3],
    )
    assert (done.returncode, done.stdout) == (code, out)
    assert done.stderr.startswith(err)
    assert "bug" not in done.stderr

"""`runner logs -f` over a real sshd that goes away in the middle and comes back."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.host_folder import FolderHost, box
from tests.fixtures.sshd import Sshd

__all__ = ["box"]

pytestmark = pytest.mark.sshd


@pytest.fixture
def client(box: FolderHost, sshd: Sshd, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The follower of the one run of the host, as a program of its own."""
    hosts = tmp_path / "ssh-hosts.yaml"
    hosts.write_text(
        f"""schema_version: 1
hosts:
  {box.host.name}:
    address: 127.0.0.1
    port: {sshd.port}
    user: {sshd.user}
    identity_file: {sshd.identity_file}
    known_hosts: {sshd.known_hosts}
    ssh_config: {sshd.folder / "ssh_config"}
    run_root: {box.host.run_root}
    engine: {{socket: {box.host.engine.socket}, command: {box.host.engine.command}}}
"""
    )
    (sshd.folder / "ssh_config").touch()
    process = subprocess.Popen(
        [sys.executable, "-m", "runner", "--hosts-file", str(hosts), "logs", "demo", "-f"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "RUNNER_STORE": str(tmp_path / "store")},
    )
    yield process
    process.kill()
    process.wait()


def test_no_line_is_lost_or_doubled(
    box: FolderHost, sshd: Sshd, request: pytest.FixtureRequest
) -> None:
    run = box.add_run()
    run.say("before the cut")
    client = request.getfixturevalue("client")
    assert client.stdout.readline() == "before the cut\n"
    sshd.stop()
    try:
        for number in range(100):
            run.say(f"unseen {number}")
        time.sleep(2)
    finally:
        sshd.start()
    run.say("after the cut")
    run.end()
    out, err = client.communicate(timeout=60)
    assert out.splitlines() == [*(f"unseen {number}" for number in range(100)), "after the cut"]
    assert client.returncode == 0, err

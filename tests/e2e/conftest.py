"""One world for all end-to-end tests: a real engine, a real sshd, real images, one inventory.

Images are built once (by the quickstart command itself) and every server start is shared among
the tests that read its run.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.world import PLANTED, REPOSITORY, Quickstart, World


def _hosts(root: Path, socket: str, sshd) -> str:
    common = f"""
    engine: {{socket: {socket}}}
    models: [{root / "models"}]
    accelerator: {{vendor: cpu}}
"""
    ssh = f"""
    address: 127.0.0.1
    port: {sshd.port}
    user: root
    identity_file: {sshd.identity_file}
    known_hosts: {sshd.known_hosts}
"""
    stub = """
    images: {server: runner-test/stub-server:latest}
    limits: {ready_quiet_s: 20, ready_hard_s: 60}
    environment: {HF_TOKEN: "${HF_TOKEN}"}
"""
    return f"""schema_version: 1
hosts:
  local:
    connection: local
    run_root: {root / "runs-local"}{common}
  box:
    connection: ssh
    run_root: {root / "runs-box"}{ssh}{common}
  stub:
    connection: ssh
    run_root: {root / "runs-stub"}{ssh}{common}{stub}
"""


@pytest.fixture(scope="session")
def world(engine_socket: str, sshd) -> Iterator[World]:
    """The inventory and the store; images come with the `quickstart` fixture."""
    with tempfile.TemporaryDirectory(prefix="runner-e2e-", dir="/var/tmp") as folder:
        root = Path(folder)
        (root / "models" / "stub").mkdir(parents=True)
        hosts_file = root / "hosts.yaml"
        hosts_file.write_text(_hosts(root, engine_socket, sshd))
        store = root / "artifacts"
        environment = {
            **os.environ,
            "RUNNER_HOSTS": str(hosts_file),
            "RUNNER_STORE": str(store),
            "RUNNER_LOCK": str(root / "lock.yaml"),
            "RUNNER_MODELS": str(root / "models"),
            "DOCKER_HOST": f"unix://{engine_socket}",
            "HF_TOKEN": PLANTED,
            "COLUMNS": "100",
        }
        yield World(root, engine_socket, hosts_file, store, environment)


@pytest.fixture(scope="session")
def quickstart(world: World) -> Quickstart:
    """The README's quickstart command, run as written (engine reachable, so used as it is)."""
    done = subprocess.run(
        ["bash", "jobs/quickstart.sh"],
        check=False,
        cwd=REPOSITORY,
        env=world.environment,
        capture_output=True,
        text=True,
        timeout=2400,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    runs = [path for path in (world.store / "quickstart").iterdir() if path.name.startswith("20")]
    assert len(runs) == 1
    return Quickstart(runs[0].name, done.returncode, done.stdout, done.stderr, runs[0])


@pytest.fixture(scope="session")
def stub_image(world: World, quickstart: Quickstart) -> str:
    """The stub server's image, on top of the base that the quickstart used."""
    name = "runner-test/stub-server:latest"
    base = world.docker("images", "--format", "{{.Repository}}:{{.Tag}}", "runner/supervisor")
    world.docker(
        "build",
        "-q",
        "-t",
        name,
        "--build-arg",
        f"BASE_IMAGE={base.splitlines()[0]}",
        str(REPOSITORY / "tests" / "images" / "stub-server"),
    )
    return name

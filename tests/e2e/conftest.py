"""One world for all end-to-end tests: a real engine, a real sshd, real images, one inventory.

Images are built once (by the quickstart command itself) and every server start is shared among
the tests that read its run.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.world import OLD, PLANTED, REPOSITORY, TOUR_SUBMIT, Quickstart, World, blocks


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
  old:
    connection: local
    run_root: {root / "runs-old"}{common}
    images: {{server: "runner/vllm-cpu:0.27.0"}}
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
        (root / "models").mkdir()
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
        found = World(root, engine_socket, hosts_file, store, environment)
        yield found
        found.end_ahead()


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
    _build_alike(world)
    _start_ahead(world)
    return Quickstart(runs[0].name, done.returncode, done.stdout, done.stderr, runs[0])


def _start_ahead(world: World) -> None:
    """What takes minutes and waits for nothing goes on beside the tests: a drafter is trained, and
    the layers of an older image are built (the tests' own build then finds them)."""
    make, *_ = blocks("README.md", "Evaluate a drafter")[0]
    models = world.root / "models"
    world.start_ahead(
        "eagle3",
        *make.split()[1:],
        *("--verifier", f"{models}/tiny", "--target", f"{models}/tiny-eagle3"),
    )
    build = ("images", "build", "vllm-cpu", "--host", "old", "--build-arg", f"VLLM_VERSION={OLD}")
    world.start_ahead("old-image", *build, RUNNER_LOCK=str(world.root / "ahead.lock.yaml"))


def _build_alike(world: World) -> None:
    """Builds for other hosts of this one engine reuse the layers of the quickstart's."""
    base = "runner/base:bookworm"
    if world.docker("images", "-q", base):
        world.environment["RUNNER_BASE_IMAGE"] = base
    for variable, source in (
        ("RUNNER_CA_BUNDLE", "SSL_CERT_FILE"),
        ("RUNNER_WHEELS", "PIP_FIND_LINKS"),
    ):
        if os.environ.get(source) and Path(os.environ[source]).exists():
            world.environment[variable] = os.environ[source]


@pytest.fixture(scope="session")
def jobs(world: World) -> Path:
    """The repository's jobs with the models where these tests have them. The tour's job has one
    concurrency in place of two: what it is run for here is the way, not the numbers."""
    folder = world.root / "jobs"
    shutil.copytree(REPOSITORY / "jobs", folder)
    for name in ("quickstart.yaml", "tiny-evaluation.yaml"):
        job = folder / name
        text = job.read_text()
        assert "/var/lib/runner/models" in text
        text = text.replace("/var/lib/runner/models", str(world.root / "models"))
        job.write_text(text.replace("concurrency: [1, 2] ", "concurrency: [1] "))
    return folder


@pytest.fixture(scope="session")
def killed_client(world: World, quickstart: Quickstart, jobs: Path) -> str:
    """The tour's submit over SSH; its client is killed three seconds after it gave the run id."""
    world.runner("images", "build", "--host", "box", timeout=900)
    client = subprocess.Popen(
        world.command(*TOUR_SUBMIT.split()[1:], "--follow"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=world.root,
        env=world.environment,
        text=True,
        start_new_session=True,
    )
    assert client.stdout is not None
    run_id = client.stdout.readline().strip()
    time.sleep(3)
    os.killpg(client.pid, signal.SIGKILL)
    client.wait()
    assert run_id.startswith("20")
    assert world.containers(run_id), "the run must go on without its client"
    return run_id


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

"""The laptop closes: the client is killed, the run goes on, another folder collects it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from tests.e2e.world import REPOSITORY

pytestmark = pytest.mark.e2e

JOB = str(REPOSITORY / "jobs" / "quickstart.yaml")


@pytest.fixture(scope="module")
def killed_client(world, quickstart, tmp_path_factory):
    """The quickstart job over SSH, its client killed three seconds after the run id came."""
    folder = tmp_path_factory.mktemp("laptop")
    for name in ("vllm-cpu", "aiperf", "supervisor"):  # same engine: building again is all cache
        world.runner("images", "build", name, "--host", "box", *world.build_options(), timeout=900)
    with (folder / "stderr.txt").open("w") as talk:
        client = subprocess.Popen(
            world.command(
                "submit",
                JOB,
                "--host",
                "box",
                "--follow",
                "--set",
                f"model={world.root}/models/tiny",
                "--set",
                f"servers.draft.speculative.model={world.root}/models/tiny",
            ),
            stdout=subprocess.PIPE,
            stderr=talk,
            cwd=folder,
            env=world.environment,
            text=True,
            start_new_session=True,
        )
        run_id = client.stdout.readline().strip()
        time.sleep(3)
        os.killpg(client.pid, signal.SIGKILL)
        client.wait()
    assert run_id.startswith("20")
    return run_id


def test_nothing_lost_and_nothing_run_twice(world, killed_client, tmp_path):
    run_id = killed_client
    assert world.containers(run_id), "the run must go on without its client"
    followed = world.runner("logs", run_id, "-f", timeout=900)
    assert "12 of 12 cells succeeded" in followed.stdout
    lines = followed.stdout.splitlines()
    assert len(lines) == len(set(lines)), "a line was printed twice"

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(world.hosts_file, elsewhere / "hosts.yaml")
    plain = {k: v for k, v in world.environment.items() if not k.startswith("RUNNER_")}
    done = subprocess.run(
        world.command("collect", run_id),
        check=False,
        cwd=elsewhere,
        env=plain,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    folder = elsewhere / "artifacts" / "quickstart" / run_id
    results = sorted(folder.glob("cells/*/attempt-*/result.json"))
    assert len(results) == 12  # one attempt each
    assert {json.loads(path.read_text())["status"] for path in results} == {"SUCCEEDED"}
    starts = [
        json.loads(line)
        for line in (folder / "journal.jsonl").read_text().splitlines()
        if '"cell_started"' in line
    ]
    assert len(starts) == 12
    assert (folder / "manifest.json").is_file()


def test_unknown_and_changed_host_keys_are_refused(world, tmp_path):
    text = world.hosts_file.read_text()
    empty = tmp_path / "known_hosts"
    empty.write_text("")
    known = next(line for line in text.splitlines() if "known_hosts" in line).split(": ")[1]
    (tmp_path / "hosts.yaml").write_text(text.replace(known, str(empty)))
    done = world.runner(
        "hosts", "check", "box", check=False, RUNNER_HOSTS=str(tmp_path / "hosts.yaml")
    )
    assert done.returncode == 4
    said = done.stdout + done.stderr
    assert "[127.0.0.1]:" in said
    assert "SHA256:" in said
    assert empty.read_text() == ""


def test_plan_launches_nothing(world, quickstart):
    before = world.docker("ps", "-aq")
    runs = sorted((world.root / "runs-box").rglob("plan.json"))
    done = world.runner("plan", JOB, "--host", "box", "--format", "json")
    plan = json.loads(done.stdout)
    assert len(plan["cells"]) == 12
    assert {server["id"] for server in plan["servers"]} == {"baseline", "ngram", "draft"}
    assert world.docker("ps", "-aq") == before
    assert sorted((world.root / "runs-box").rglob("plan.json")) == runs

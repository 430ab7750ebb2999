"""The laptop closes: the client is killed, the run goes on, another folder collects it."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.e2e


def test_nothing_lost_and_nothing_run_twice(world, killed_client, tmp_path):
    run_id = killed_client
    followed = world.runner("logs", run_id, "-f", timeout=900)
    assert "6 of 6 cells succeeded" in followed.stdout
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
    assert len(results) == 6  # 3 configurations x 2 prompt sets, one attempt each
    assert {json.loads(path.read_text())["status"] for path in results} == {"SUCCEEDED"}
    starts = [
        json.loads(line)
        for line in (folder / "journal.jsonl").read_text().splitlines()
        if '"cell_started"' in line
    ]
    assert len(starts) == 6
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


def test_plan_launches_nothing(world, killed_client):
    world.runner("logs", killed_client, "-f", timeout=900)
    before = world.docker("ps", "-aq")
    runs = sorted((world.root / "runs-box").rglob("plan.json"))
    done = world.runner("plan", "jobs/quickstart.yaml", "--host", "box", "--format", "json")
    plan = json.loads(done.stdout)
    assert len(plan["cells"]) == 6
    assert {server["id"] for server in plan["servers"]} == {"baseline", "ngram", "draft"}
    assert world.docker("ps", "-aq") == before
    assert sorted((world.root / "runs-box").rglob("plan.json")) == runs

"""A real vLLM container is killed in the middle of a cell."""

from __future__ import annotations

import json

import pytest

from tests.e2e.world import World

pytestmark = pytest.mark.e2e

SETS = (
    "name=killed",
    "matrix.server=[ngram]",
    "matrix.concurrency=[1,2]",
    "matrix.prompts=[code]",
    "prompts.code.rows=24",
    "prompts.code.output_tokens=256",
)


def test_that_cell_fails_and_the_others_go_on(world: World, killed_client: str) -> None:
    options = [part for item in SETS for part in ("--set", item)]
    submitted = world.runner(
        "submit", "jobs/quickstart.yaml", "--host", "box", *options, cwd=world.root
    )
    run_id = submitted.stdout.strip()
    world.wait_for_phase(run_id, "load", cell="ngram-code-c1-r1")
    (server,) = [
        name
        for name in world.containers(run_id)
        if "-load-" not in name and not name.endswith("-supervisor")
    ]
    world.docker("kill", server)
    followed = world.runner("logs", run_id, "-f")
    assert "server_died" in followed.stdout
    assert world.state(run_id)["status"] == "FAILED"
    world.runner("collect", run_id)
    folder = world.artifacts("killed", run_id)

    verdicts = {
        path.parts[-3]: json.loads(path.read_text())
        for path in folder.glob("cells/*/attempt-1/result.json")
    }
    killed, spared = verdicts["ngram-code-c1-r1"], verdicts["ngram-code-c2-r1"]
    assert (killed["status"], killed["reason"]) == ("FAILED", "server_died")
    assert "exit code 137" in killed["message"]
    assert (spared["status"], spared["server_attempt"]) == ("SUCCEEDED", 2)
    assert not list(folder.glob("cells/*/attempt-2"))  # what failed is not tried again
    for attempt in (1, 2):
        assert "vLLM" in (folder / f"servers/ngram/attempt-{attempt}/output.log").read_text()

    world.runner("report", run_id)
    summary = json.loads((folder / "report" / "summary.json").read_text())
    assert [cell["id"] for cell in summary["cells"]] == ["ngram-code-c2-r1"]
    assert [(c["id"], c["reason"]) for c in summary["left_out"]] == [
        ("ngram-code-c1-r1", "server_died")
    ]
    told = (folder / "report" / "README.md").read_text().split("## Left out")[1]
    assert "ngram-code-c1-r1" in told


def test_a_run_that_failed_is_told_by_the_exit_code(world: World, killed_client: str) -> None:
    newest = world.runner("status", "killed", "--watch", check=False)
    assert newest.returncode == 1

"""What goes wrong must be told as what it is. Faults come from the stub server's image."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.e2e.world import PLANTED, REPOSITORY, World

pytestmark = pytest.mark.e2e

JOB = str(REPOSITORY / "tests" / "data" / "jobs" / "stub.yaml")


@pytest.fixture(scope="module")
def ready(world: World, stub_image: str) -> World:
    """The stub host, whose images are the ones that the quickstart built."""
    world.runner("images", "build", "--host", "stub", timeout=900)
    return world


def submit(world: World, *sets: str, check: bool = True, follow: bool = True) -> tuple[str, int]:
    """Run id and exit code of a submitted stub job."""
    options = [part for item in sets for part in ("--set", item)]
    if follow:
        options.append("--follow")
    done = world.runner(
        "submit",
        JOB,
        "--host",
        "stub",
        "--set",
        f"model={world.root}/models/tiny",
        *options,
        check=False,
    )
    run_id = done.stdout.strip()
    assert run_id.startswith("20"), done.stderr
    assert done.stdout == f"{run_id}\n"  # the run id alone: a script can take it as it is
    assert f"runner logs {run_id}" in done.stderr
    return run_id, done.returncode


def results(world: World, run_id: str) -> dict[str, dict]:
    """Collected verdicts by `cell/attempt`."""
    world.runner("collect", run_id)
    folder = world.artifacts("stub", run_id)
    return {
        f"{path.parts[-3]}/{path.parts[-2]}": json.loads(path.read_text())
        for path in sorted(folder.glob("cells/*/attempt-*/result.json"))
    }


def test_half_of_the_requests_fail(ready: World):
    run_id, code = submit(
        ready,
        "servers.ngram.environment.STUB_FAIL_EVERY='2'",
        "servers.ngram.environment.STUB_FAIL_AFTER='3'",
        "matrix.concurrency=[1]",
    )
    assert code == 1
    found = results(ready, run_id)
    bad = {name: r for name, r in found.items() if name.startswith("ngram")}
    assert len(bad) == 1
    for result in bad.values():
        assert result["status"] == "FAILED"
        assert result["reason"] == "request_errors"
        assert result["load_exit_code"] == 0  # an exit code is not a verdict
        assert result["counts"]["errors"] >= 5
        assert "500" in result["message"]
    good = [r for name, r in found.items() if name.startswith("baseline")]
    assert [r["status"] for r in good] == ["SUCCEEDED"]
    ready.runner("report", run_id, check=False)
    report = ready.artifacts("stub", run_id) / "report"
    summary = json.loads((report / "summary.json").read_text())
    assert {cell["server"] for cell in summary["cells"]} == {"baseline"}
    assert {cell["server"] for cell in summary["pooled"]} <= {"baseline"}
    (left_out,) = summary["left_out"]
    assert left_out["id"] == "ngram-words-c1-r1"
    assert left_out["reason"] == "request_errors"
    told = (report / "README.md").read_text().split("## Left out")[1]
    assert "of 12 failed: 500 Internal Server Error" in told


def test_planted_token_is_nowhere(ready: World):
    run_id, _ = submit(
        ready,
        "server.environment.STUB_PRINT_ENV='1'",
        "matrix.server=[baseline]",
        "matrix.concurrency=[1]",
    )
    results(ready, run_id)
    log = next(ready.artifacts("stub", run_id).glob("servers/*/attempt-1/output.log")).read_text()
    assert "HF_TOKEN=***" in log  # the server did see it
    said = ready.runner("logs", run_id, "--source", "server").stdout
    assert PLANTED not in said
    for root in (ready.root / "runs-stub", ready.store):
        for path in root.rglob("*"):
            if path.is_file() and not path.is_symlink():
                assert PLANTED.encode() not in path.read_bytes(), path


def test_supervisor_killed_and_started_again(ready: World):
    run_id, _ = submit(
        ready,
        "server.environment.STUB_TOKEN_DELAY_MS='60'",
        "matrix.server=[baseline]",
        follow=False,
    )
    ready.wait_for_phase(run_id, "load")
    name = next(name for name in ready.containers(run_id) if "supervisor" in name)
    pid = int(ready.docker("inspect", "--format", "{{.State.Pid}}", name))
    os.kill(pid, signal.SIGKILL)
    followed = ready.runner("logs", run_id, "-f")
    assert "resumed" in followed.stdout
    found = results(ready, run_id)
    assert {r["status"] for r in found.values()} == {"SUCCEEDED"}, found
    assert len(found) == 2  # the load went on and was adopted: one attempt each
    journal = (ready.artifacts("stub", run_id) / "journal.jsonl").read_text()
    assert journal.count('"server_started"') == 1


def test_stop_ends_everything_and_says_so(ready: World):
    run_id, _ = submit(ready, "server.environment.STUB_TOKEN_DELAY_MS='60'", follow=False)
    ready.wait_for_phase(run_id, "load")
    ready.runner("stop", run_id)
    assert ready.state(run_id)["status"] == "STOPPED"
    assert ready.containers(run_id) == []
    found = results(ready, run_id)
    assert {r["status"] for r in found.values()} == {"STOPPED"}
    assert len(found) == 4
    cut = found["baseline-words-c1-r1/attempt-1"]
    assert cut["counts"]["recorded"] < cut["counts"]["planned"]


def test_collecting_a_running_run(ready: World):
    run_id, _ = submit(
        ready,
        "server.environment.STUB_TOKEN_DELAY_MS='60'",
        "matrix.server=[baseline]",
        follow=False,
    )
    ready.wait_for_phase(run_id, "load", cell="baseline-words-c2-r1")
    partial = ready.runner("collect", run_id)
    assert "running" in (partial.stdout + partial.stderr).lower()
    folder = ready.artifacts("stub", run_id)
    first = folder.resolve()
    assert not (folder / "manifest.json").exists()
    assert (folder / "cells/baseline-words-c1-r1/attempt-1/result.json").is_file()
    ready.runner("logs", run_id, "-f")
    ready.runner("collect", run_id)
    assert (folder / "manifest.json").is_file()
    assert folder.resolve() != first
    assert (first / "cells/baseline-words-c1-r1/attempt-1/result.json").is_file()
    same = "cells/baseline-words-c1-r1/attempt-1/load/aiperf/profile_export.jsonl"
    assert (first / same).stat().st_ino == (folder / same).stat().st_ino


def test_server_that_never_starts(ready: World):
    run_id, code = submit(ready, "servers.ngram.environment.STUB_DIE_AT_START='1'")
    assert code == 1
    found = results(ready, run_id)
    reasons = {name.split("-")[0]: r["reason"] for name, r in found.items()}
    assert reasons == {"baseline": "completed", "ngram": "server_start_failed"}


def test_foreign_server_is_refused(ready: World):
    run_id, code = submit(
        ready, "matrix.server=[baseline]", "server.environment.STUB_WRONG_NAME='1'"
    )
    assert code == 1
    assert {r["reason"] for r in results(ready, run_id).values()} == {"foreign_server"}

"""The main job on the embedded default: real engine, real vLLM, real AIPerf, a real tiny model."""

from __future__ import annotations

import csv
import json
import re

import pytest

from tests.e2e.world import PLANTED

pytestmark = pytest.mark.e2e


def cell_results(folder):
    """Every `result.json` of a run, by cell."""
    return {
        path.parts[-3]: json.loads(path.read_text())
        for path in folder.glob("cells/*/attempt-*/result.json")
    }


def test_every_cell_succeeded_and_the_manifest_verifies(world, quickstart):
    results = cell_results(quickstart.folder)
    assert len(results) == 12  # 3 configurations x 2 prompt sets x 2 concurrencies
    assert {result["status"] for result in results.values()} == {"SUCCEEDED"}
    for result in results.values():
        counts = result["counts"]
        assert counts["planned"] == counts["recorded"] == counts["good"] > 0
        assert counts["errors"] == counts["cancelled"] == counts["torn_lines"] == 0
    verified = world.runner("artifacts", "verify", quickstart.run_id)
    assert verified.returncode == 0
    assert (quickstart.folder / "manifest.json").is_file()


def test_server_evidence_is_kept(quickstart):
    for server in ("baseline", "ngram", "draft"):
        folder = quickstart.folder / "servers" / server / "attempt-1"
        info = json.loads((folder / "server_info.json").read_text())
        found = info["vllm_config"]["speculative_config"]
        assert (found or {}).get("method") == {"ngram": "ngram", "draft": "draft_model"}.get(server)
        assert b"vLLM" in (folder / "output.log").read_bytes()
        inspect = json.loads((folder / "inspect.json").read_text())
        assert inspect["HostConfig"]["PortBindings"] in ({}, None)
        assert json.loads((folder / "result.json").read_text())["status"] == "SUCCEEDED"
    cell = next((quickstart.folder / "cells").glob("ngram-*"))
    for name in ("metrics_before.prom", "metrics_after.prom"):
        text = (cell / "attempt-1" / "server" / name).read_text()
        assert "vllm:spec_decode_num_drafts_total" in text


def test_server_and_load_never_shared_a_core(quickstart):
    server = json.loads(
        next(quickstart.folder.glob("servers/*/attempt-1/inspect.json")).read_text()
    )
    load = json.loads(
        next(quickstart.folder.glob("cells/*/attempt-1/load/inspect.json")).read_text()
    )
    ours, theirs = server["HostConfig"]["CpusetCpus"], load["HostConfig"]["CpusetCpus"]
    assert ours
    assert theirs
    assert ours != theirs


def figures(folder):
    """summary.json of the report."""
    return json.loads((folder / "report" / "summary.json").read_text())


def test_known_acceptance(quickstart):
    summary = figures(quickstart.folder)
    assert summary["schema_version"] == 2
    text = json.dumps(summary)
    assert "NaN" not in text
    draft = [c for c in summary["cells"] if c["server"] == "draft"]
    ngram = [c for c in summary["cells"] if c["server"] == "ngram"]
    assert len(draft) == len(ngram) == 4
    for cell in draft:  # the same checkpoint drafts what it would say itself: k + 1, always
        assert cell["figures"]["acceptance_length"]["value"] == 4.0
        assert cell["figures"]["draft_acceptance_rate"]["value"] == 1.0
    for cell in ngram:
        assert 1.0 <= cell["figures"]["acceptance_length"]["value"] <= 5.0
        assert cell["figures"]["drafting_coverage"]["value"] < 1.0
    baseline = [c for c in summary["cells"] if c["server"] == "baseline"]
    assert not any("acceptance_length" in c["figures"] for c in baseline)


def test_report_stands_on_raw_cells(quickstart):
    report = quickstart.folder / "report"
    readme = (report / "README.md").read_text()
    links = re.findall(r"\]\((?!https?:|#)([^)]+)\)", readme)
    assert len(links) > 12
    for link in links:
        assert (report / link).exists(), link
    assert (report / "throughput.png").stat().st_size > 10_000
    assert (report / "acceptance.png").stat().st_size > 10_000
    assert "coverage" in readme.lower()
    tables = list(report.glob("*.csv"))
    assert tables
    for path in tables:
        with path.open() as file:
            assert len(list(csv.reader(file))) > 1, path


def test_submit_says_how_to_go_on(quickstart):
    for verb in ("logs", "status", "collect"):
        assert f"runner {verb} {quickstart.run_id}" in quickstart.stderr


def test_nothing_is_left_running(world, quickstart):
    assert world.containers(quickstart.run_id) == []
    networks = world.docker("network", "ls", "--format", "{{.Name}}").splitlines()
    assert not [name for name in networks if quickstart.run_id in name]


def test_planted_token_is_nowhere(world, quickstart):
    for root in (world.root / "runs-local", world.store):
        for path in root.rglob("*"):
            if path.is_file() and not path.is_symlink():
                assert PLANTED.encode() not in path.read_bytes(), path
    assert PLANTED not in quickstart.stdout + quickstart.stderr


def test_collecting_twice_changes_nothing(world, quickstart):
    def listing():
        return {
            str(path): (path.lstat().st_mtime_ns, path.lstat().st_ino)
            for path in sorted(world.store.rglob("*"))
            if ".lock" not in path.name
        }

    before = listing()
    world.runner("collect", quickstart.run_id)
    assert listing() == before


def test_status_and_logs_read_back(world, quickstart):
    state = world.state(quickstart.run_id)
    assert state["status"] == "SUCCEEDED"
    logs = world.runner("logs", quickstart.run_id).stdout
    assert "12 of 12 cells succeeded" in logs
    one = world.runner(
        "logs", quickstart.run_id, "--source", "server", "--cell", "ngram-code-c1-r1"
    )
    assert "vLLM" in one.stdout or "vllm" in one.stdout
    assert len(world.runner("logs", "quickstart", "--tail", "3").stdout.splitlines()) == 3

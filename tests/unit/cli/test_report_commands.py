"""`runner report` and `runner compare` as they are called, on runs in a store."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from runner.artifacts.store import Store
from tests.unit.analysis.test_comparison import run_of, twice_as_long
from tests.unit.cli.test_commands import Done, call

OLD, NEW = "20261130T101500Z-demo-aaaa", "20261201T101500Z-demo-bbbb"


def keep(store: Store, run_id: str, root: Path) -> None:
    """A run folder as a collected run."""
    plan = json.loads((root / "plan.json").read_text())
    plan["run_id"] = run_id
    (root / "plan.json").write_text(json.dumps(plan))
    with store.intake(run_id) as intake:
        entries = [
            intake.keep_bytes(
                str(path.relative_to(root)),
                path.read_bytes(),
                hashlib.sha256(path.read_bytes()).hexdigest(),
            )
            for path in sorted(root.rglob("*"))
            if path.is_file()
        ]
        store.commit(
            run_id=run_id,
            job="demo",
            host="local",
            status="SUCCEEDED",
            complete=True,
            collected_at="2026-12-01T10:16:00.000Z",
            files=entries,
            left_out=[],
        )


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of one job; the newer one takes twice as long."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("RUNNER_STORE", raising=False)
    store = Store(tmp_path / "artifacts")
    keep(store, OLD, run_of(tmp_path / "a"))
    keep(store, NEW, run_of(tmp_path / "b", twice_as_long))
    return tmp_path


def test_a_regression_ends_with_1_and_is_named(stored: Path) -> None:
    done = call("compare", OLD, NEW)
    assert done.code == 1
    assert done.stdout.count("REGRESSION") == 2
    assert "0.500" in done.stdout
    assert done.stderr.endswith("2 figures fell by more than 5 %\n")
    assert all(len(line) <= 100 for line in done.stdout.splitlines())


def test_no_regression_ends_with_0(stored: Path) -> None:
    assert call("compare", NEW, OLD).code == 0
    assert call("compare", OLD, NEW, "--limit", "0.6").code == 0
    assert call("compare", OLD, OLD).code == 0


def test_compare_as_json(stored: Path) -> None:
    done = call("compare", OLD, NEW, "--format", "json")
    found = json.loads(done.stdout)
    assert (done.code, found["regressions"], found["limit"]) == (1, 2, 0.05)
    (change,) = [
        one
        for one in found["changes"]
        if (one["configuration"], one["metric"]) == ("ngram", "output_token_throughput")
    ]
    assert change["ratio"]["value"] == pytest.approx(0.5)
    assert change["says"] == "below 1"
    assert change["before_paths"] == ["cells/ngram-code-c4-r1/attempt-1"]


def test_unlike_runs_are_refused_with_exit_code_5(stored: Path) -> None:
    path = stored / "artifacts" / "demo" / NEW / "plan.json"
    plan = json.loads(path.read_text())
    plan["host"]["name"] = "elsewhere"
    path.unlink()
    path.write_text(json.dumps(plan))
    done = call("compare", OLD, NEW)
    assert done.code == 5
    assert "host: local against elsewhere" in done.stderr
    assert "next: if that is meant: --allow host" in done.stderr
    allowed = call("compare", OLD, NEW, "--allow", "host")
    assert allowed.code == 1
    assert "warning: host differs: local against elsewhere" in allowed.stderr


def test_share_needs_a_folder(stored: Path) -> None:
    done = call("report", OLD, "--share")
    assert done.code == 2
    assert "next: add --out FOLDER" in done.stderr


def test_reports_of_several_runs(stored: Path) -> None:
    done: Done = call("report", OLD, NEW, "--out", "cards")
    assert done.code == 0
    assert done.stdout.splitlines() == [f"cards/{OLD}/README.md", f"cards/{NEW}/README.md"]
    assert (stored / "cards" / NEW / "page.html").exists()


def test_a_bundle(stored: Path) -> None:
    done = call("report", OLD, "--share", "--out", "bundle")
    assert done.code == 0
    assert "0 files left out" in done.stderr
    assert (stored / "bundle" / "raw" / "plan.json").exists()

"""The pace of earlier runs: medians of what is in the store, nothing where nothing is."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from pathlib import Path

import pytest

from runner.artifacts.store import Store
from runner.client.pace import pace_of
from runner.plan.estimate import Pace, estimate
from tests.fixtures.run_folder import ENDED, STARTED, build_demo_run

SECONDS = (datetime.fromisoformat(ENDED) - datetime.fromisoformat(STARTED)).total_seconds()


def stored(tmp_path: Path) -> Path:
    """A store with the demo run, whose model is /models/tiny on the host `local`."""
    demo = build_demo_run(tmp_path / "made")
    for number, name in enumerate(("baseline", "ngram")):
        folder = demo / "servers" / name / "attempt-1"
        folder.mkdir(parents=True)
        result = {
            "server": name,
            "attempt": 1,
            "status": "SUCCEEDED",
            "reason": "completed",
            "message": "",
            "started_at": "2026-12-01T10:00:00.000Z",
            "ended_at": "2026-12-01T10:05:00.000Z",
            "ready_after_s": 20.0 + 10 * number,
        }
        (folder / "result.json").write_text(json.dumps(result))
    root = tmp_path / "store"
    store = Store(root)
    with store.intake(demo.name) as intake:
        files = [
            intake.keep_bytes(
                path.relative_to(demo).as_posix(),
                path.read_bytes(),
                hashlib.sha256(path.read_bytes()).hexdigest(),
            )
            for path in sorted(demo.rglob("*"))
            if path.is_file()
        ]
        store.commit(
            run_id=demo.name,
            job="demo",
            host="local",
            status="FAILED",
            complete=True,
            collected_at="2026-12-01T11:00:00.000Z",
            files=files,
        )
        intake.finish()
    return root


def test_medians_of_ready_times_and_of_rates_by_concurrency(tmp_path: Path) -> None:
    pace = pace_of(stored(tmp_path), "local", "/models/tiny")
    assert pace is not None
    assert pace.source == "1 earlier run of /models/tiny on local in the store"
    assert pace.server_ready_s == 25.0
    # only cells whose server counted output tokens tell a rate: n-gram on code at 4, 2,560 tokens
    # of the recorded export in the ten seconds of its made-up times
    assert pace.tokens_per_s == {4: 2560 / SECONDS}


def test_another_host_or_model_tells_nothing(tmp_path: Path) -> None:
    root = stored(tmp_path)
    assert pace_of(root, "elsewhere", "/models/tiny") is None
    assert pace_of(root, "local", "/models/other") is None


def test_no_store_no_pace(tmp_path: Path) -> None:
    assert pace_of(tmp_path / "none", "local", "/models/tiny") is None
    (tmp_path / "empty").mkdir()
    assert pace_of(tmp_path / "empty", "local", "/models/tiny") is None


def test_a_rate_is_that_of_the_nearest_concurrency_below() -> None:
    pace = Pace("x", 10.0, 0.0, {2: 20.0, 8: 50.0})
    assert [pace.rate(c) for c in (1, 2, 4, 8, 64)] == [20.0, 20.0, 20.0, 50.0, 50.0]
    assert estimate(2, [], pace).hours == pytest.approx(20 / 3600)

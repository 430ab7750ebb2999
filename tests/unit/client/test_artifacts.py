"""What `runner artifacts` tells about the store."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from runner.artifacts.hashing import ProblemKind
from runner.artifacts.store import Store
from runner.client.artifacts import list_runs, show, verify_runs
from runner.errors import UsageError

RUN = "20261201T101500Z-quick-3f9a"
OTHER = "20261202T101500Z-full-0000"
AT = "2026-12-01T10:16:00.000Z"


def commit(store: Store, run_id: str, job: str, files: dict[str, bytes]) -> None:
    with store.intake(run_id) as intake:
        entries = [
            intake.keep_bytes(path, data, hashlib.sha256(data).hexdigest())
            for path, data in files.items()
        ]
        store.commit(
            run_id=run_id,
            job=job,
            host="gpu-1",
            status="RUNNING",
            complete=False,
            collected_at=AT,
            files=entries,
            left_out=["x", "y"],
        )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "artifacts")
    commit(made, OTHER, "full", {"plan.json": b"{}"})
    commit(made, RUN, "quick", {"plan.json": b"{}", "cells/a/x": b"1"})
    commit(made, RUN, "quick", {"plan.json": b"{}", "cells/a/x": b"12", "cells/ab": b""})
    return made


def test_one_row_a_run(store: Store) -> None:
    report = store.path(RUN) / "report"
    report.mkdir()
    first, second = list_runs(store)
    assert (second.run_id, second.files, second.has_report) == (OTHER, 1, False)
    assert (first.run_id, first.job, first.host, first.status) == (RUN, "quick", "gpu-1", "RUNNING")
    assert (first.version, first.files, first.size_bytes, first.left_out) == (2, 3, 4, 2)
    assert (first.complete, first.collected_at, first.has_report) == (False, AT, True)
    assert first.path == store.root / "quick" / RUN


def test_every_version_is_verified(store: Store) -> None:
    target = store.path(RUN, 1) / "cells/a/x"
    target.chmod(0o644)
    target.write_bytes(b"2")
    found = verify_runs(store)
    assert [(v.run_id, v.version, v.files, len(v.problems)) for v in found] == [
        (RUN, 1, 2, 1),
        (RUN, 2, 3, 0),
        (OTHER, 1, 1, 0),
    ]
    assert (found[0].problems[0].path, found[0].problems[0].kind) == ("cells/a/x", ProblemKind.HASH)
    assert [v.run_id for v in verify_runs(store, ["full", OTHER])] == [OTHER]
    with pytest.raises(UsageError, match="'fast' fits no run here"):
        verify_runs(store, ["fast"])


def test_show_a_run_a_folder_a_file_and_a_report(store: Store) -> None:
    whole = show(store, "quick")
    assert (whole.run.version, whole.versions, whole.path) == (2, (1, 2), store.path(RUN, 2))
    assert len(whole.entries) == 3
    assert [entry.path for entry in show(store, RUN, 1, "cells/").entries] == ["cells/a/x"]
    one = show(store, "20261201", 2, "cells/a")
    assert [entry.path for entry in one.entries] == ["cells/a/x"]
    assert show(store, RUN, 1, "cells/a/x").path.read_bytes() == b"1"
    (store.path(RUN) / "report").mkdir()
    (store.path(RUN) / "report/README.md").write_text("figures")
    report = show(store, RUN, None, "report/README.md")
    assert (report.path.read_text(), report.entries) == ("figures", ())


def test_show_what_is_not_there(store: Store) -> None:
    with pytest.raises(UsageError, match=r"version 2 has no 'report'; at its top are: cells, plan"):
        show(store, RUN, None, "report")
    with pytest.raises(UsageError, match="has no version 9; there are: 1, 2"):
        show(store, RUN, 9)
    with pytest.raises(UsageError, match=r"is no path inside the run; expected a relative one"):
        show(store, RUN, None, "../0001/plan.json")

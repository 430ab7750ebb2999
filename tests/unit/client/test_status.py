"""Rows and records of runs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from runner.client.runs import read_state
from runner.client.status import elapsed_s, list_rows, status_record
from runner.models.event import EventKind
from runner.models.status import Phase, Reason, Status
from tests.fixtures.host_folder import FolderHost

OLD = "20261130T090000Z-demo-aaaa"
NEW = "20261201T090000Z-other-bbbb"


def test_rows_of_all_runs_newest_first(box: FolderHost) -> None:
    box.add_run(OLD).end(Status.FAILED)
    box.add_run(NEW)
    (rows,) = list_rows(box.fleet()).given.values()
    assert [(row.run_id, row.status, row.succeeded, row.failed, row.cells) for row in rows] == [
        (NEW, "RUNNING", 0, 0, 3),
        (OLD, "FAILED", 0, 3, 3),
    ]
    (newest,) = list_rows(box.fleet(), newest=1).given["box"]
    assert newest.run_id == NEW


def test_a_damaged_journal_does_not_hide_the_other_runs(box: FolderHost) -> None:
    damaged = box.add_run(OLD)
    Path(damaged.layout.journal).write_text("not an event\n")
    box.add_run(NEW)
    rows = list_rows(box.fleet()).given["box"]
    assert [(row.run_id, row.status) for row in rows] == [(NEW, "RUNNING"), (OLD, "UNREADABLE")]


def test_a_plan_of_another_version_does_not_hide_the_other_runs(box: FolderHost) -> None:
    Path(box.add_run(OLD).layout.plan).write_text('{"later": true}')
    box.add_run(NEW)
    rows = list_rows(box.fleet()).given["box"]
    assert [(row.run_id, row.status) for row in rows] == [(NEW, "RUNNING"), (OLD, "UNREADABLE")]


def test_the_record_of_a_run_is_plain_json(box: FolderHost) -> None:
    run = box.add_run()
    cell = "plain-chat-c1-r1"
    run.start_cell(cell)
    run.journal.append(EventKind.CELL_PHASE, cell=cell, attempt=1, phase=Phase.LOAD)
    run.journal.append(
        EventKind.CELL_ENDED,
        cell="plain-chat-c2-r1",
        attempt=1,
        status=Status.FAILED,
        reason=Reason.REQUEST_ERRORS,
        message="6 of 12 failed",
    )
    record = json.loads(json.dumps(status_record(read_state(box.connect(), box.host, run.ref))))
    assert record["status"] == "RUNNING"
    assert record["supervisor"] == "running"
    assert record["cell_states"][cell]["phase"] == "load"
    failed = record["cell_states"]["plain-chat-c2-r1"]
    assert (failed["reason"], failed["message"]) == ("request_errors", "6 of 12 failed")
    assert set(record["servers"]) == {"plain", "ngram"}


def test_elapsed_time() -> None:
    start = "2026-12-01T10:00:00.000Z"
    now = datetime(2026, 12, 1, 10, 2, tzinfo=UTC)
    assert elapsed_s(None, None) == 0
    assert elapsed_s(start, None, now) == 120
    assert elapsed_s(start, "2026-12-01T10:00:01.500Z", now) == 1.5
    assert elapsed_s("2026-12-01T11:00:00.000Z", None, now) == 0  # the host's clock is ahead

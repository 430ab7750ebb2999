"""Finding runs, and what plan, journal and engine together say about one."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runner.client.containers import Supervisor
from runner.client.fleet import Fleet
from runner.client.runs import (
    RUN_ID,
    find_run,
    list_runs,
    new_run_id,
    open_run,
    read_plan,
    read_state,
)
from runner.errors import ArtifactError, FileMissing, HostError, HostUnreachable, UsageError
from runner.models.host import ConnectionKind, Host, Inventory
from runner.models.status import Reason, Status
from runner.transport.base import Connection
from runner.transport.local import LocalConnection
from tests.fixtures.host_folder import FolderHost

OLD = "20261130T090000Z-demo-aaaa"
NEW = "20261201T090000Z-demo-bbbb"
OTHER = "20261201T100000Z-other-job-cccc"


def two_hosts(box: FolderHost, other: Host, *, away: bool) -> Fleet:
    def dial(host: Host) -> Connection:
        if away and host.name == other.name:
            raise HostUnreachable("no answer within 10 s", where=host.name, next_step="ping it")
        return LocalConnection(host.name)

    return Fleet(Inventory(hosts={"box": box.host, other.name: other}), dial)


@pytest.fixture
def away(tmp_path: Path) -> Host:
    return Host(name="away", connection=ConnectionKind.LOCAL, run_root=str(tmp_path / "away"))


def test_a_run_id_names_time_and_job() -> None:
    made = new_run_id("my-job", datetime(2026, 12, 1, 10, 15, tzinfo=UTC))
    assert re.fullmatch(r"20261201T101500Z-my-job-[0-9a-f]{4}", made)
    match = RUN_ID.fullmatch(made)
    assert match is not None
    assert match.group(2) == "my-job"


def test_listing_sorts_by_time_and_passes_over_what_is_no_run(box: FolderHost) -> None:
    for run_id in (NEW, OTHER, OLD):
        box.add_run(run_id)
    for stray in ("demo/notes", "demo/20261201T090000Z-other-bbbb", "lost+found"):
        (Path(box.host.run_root) / stray).mkdir(parents=True)
    found = list_runs(box.connect(), box.host)
    assert [ref.run_id for ref in found] == [OLD, NEW, OTHER]
    assert found[0].root == f"{box.host.run_root}/demo/{OLD}"
    assert [ref.run_id for ref in list_runs(box.connect(), box.host, job="demo")] == [OLD, NEW]


def test_what_was_not_found_was_looked_for_on_the_hosts_asked(box: FolderHost, away: Host) -> None:
    fleet = two_hosts(box, away, away=False)
    with pytest.raises(UsageError, match="no run or job 'demo' on: box, away"):
        find_run(fleet, "demo")
    with pytest.raises(UsageError, match=r"no run or job 'demo' on: away\n"):
        find_run(fleet, "demo", host="away")


def test_a_host_without_a_run_root_has_no_runs(box: FolderHost) -> None:
    assert list_runs(box.connect(), box.host) == ()


@pytest.mark.parametrize(
    ("text", "run_id"),
    [("demo", NEW), (OLD, OLD), ("20261130", OLD), ("other-job", OTHER), (NEW[:18], NEW)],
)
def test_job_run_id_and_beginning_find_a_run(box: FolderHost, text: str, run_id: str) -> None:
    for item in (OLD, NEW, OTHER):
        box.add_run(item)
    assert find_run(box.fleet(), text).ref.run_id == run_id


def test_a_beginning_of_two_runs_names_both(box: FolderHost) -> None:
    box.add_run(NEW)
    box.add_run(OTHER)
    with pytest.raises(UsageError) as caught:
        find_run(box.fleet(), "20261201")
    assert NEW in str(caught.value)
    assert OTHER in str(caught.value)


def test_nothing_found_everywhere_is_a_usage_error(box: FolderHost) -> None:
    with pytest.raises(UsageError, match="no run or job 'nope' on: box"):
        find_run(box.fleet(), "nope")


def test_a_silent_host_is_a_note_when_the_run_is_found(box: FolderHost, away: Host) -> None:
    box.add_run(NEW)
    found = find_run(two_hosts(box, away, away=True), "demo")
    assert found.ref.host == "box"
    assert [item.host for item in found.unreachable] == ["away"]


def test_a_silent_host_is_an_error_when_nothing_is_found(box: FolderHost, away: Host) -> None:
    with pytest.raises(HostError) as caught:
        find_run(two_hosts(box, away, away=True), "demo")
    assert not isinstance(caught.value, UsageError)
    assert "could not be looked for on: away" in str(caught.value)
    assert "no answer within 10 s" in str(caught.value)


def test_the_newest_run_of_a_job_may_be_on_another_host(box: FolderHost, away: Host) -> None:
    box.add_run(OLD)
    (Path(away.run_root) / "demo" / NEW).mkdir(parents=True)
    found = find_run(two_hosts(box, away, away=False), "demo")
    assert (found.ref.host, found.ref.run_id) == ("away", NEW)


def test_a_hint_spares_the_other_hosts(box: FolderHost, away: Host, tmp_path: Path) -> None:
    box.add_run(NEW)
    hints = tmp_path / "store" / ".hints.json"
    fleet = two_hosts(box, away, away=True)
    fleet.hints = hints
    assert find_run(fleet, NEW).unreachable != ()
    assert json.loads(hints.read_text()) == {NEW: "box"}
    assert find_run(fleet, NEW).unreachable == ()


def test_a_wrong_hint_does_no_harm(box: FolderHost, tmp_path: Path) -> None:
    box.add_run(NEW)
    hints = tmp_path / ".hints.json"
    hints.write_text(json.dumps({NEW: "gone"}))
    assert find_run(box.fleet(hints), NEW).ref.host == "box"
    hints.write_text("not json")
    assert find_run(box.fleet(hints), NEW).ref.host == "box"


def test_an_unknown_host_names_the_near_one(box: FolderHost) -> None:
    with pytest.raises(UsageError, match="did you mean 'box'"):
        find_run(box.fleet(), "demo", host="bux")


def test_a_running_run(box: FolderHost) -> None:
    run = box.add_run()
    run.start_cell("plain-chat-c1-r1")
    view = read_state(box.connect(), box.host, run.ref)
    assert view.state.status is Status.RUNNING
    assert view.supervisor is Supervisor.RUNNING
    assert view.state.cells["plain-chat-c1-r1"].status is Status.RUNNING
    assert not view.complete


def test_a_finished_run_asks_no_engine(box: FolderHost) -> None:
    run = box.add_run()
    run.end()
    view = read_state(box.connect(), box.host, run.ref)
    assert (view.state.status, view.complete, view.next_step) == (Status.SUCCEEDED, True, None)
    assert box.calls() == []


def test_a_plan_without_supervisor_is_lost(box: FolderHost) -> None:
    run = box.add_run(started=False)
    view = read_state(box.connect(), box.host, run.ref)
    assert (view.state.status, view.state.reason) == (Status.LOST, Reason.SUPERVISOR_LOST)
    assert view.supervisor is Supervisor.ABSENT
    assert view.next_step == f"runner resume {run.ref.run_id}"


def test_a_supervisor_that_ended_early_is_lost(box: FolderHost) -> None:
    run = box.add_run()
    run.supervisor(False)
    view = read_state(box.connect(), box.host, run.ref)
    assert view.state.status is Status.LOST
    assert view.state.message == "its supervisor ended before the run did"
    assert view.state.started_at is not None


def test_a_run_that_ends_between_two_questions_is_not_lost(box: FolderHost) -> None:
    run = box.add_run()
    run.supervisor(False)
    connection = box.connect()
    ask = connection.run

    def ends_meanwhile(argv, **options):  # type: ignore[no-untyped-def]
        done = ask(argv, **options)
        run.end()
        return done

    connection.run = ends_meanwhile  # type: ignore[method-assign]
    view = read_state(connection, box.host, run.ref)
    assert (view.state.status, view.complete) == (Status.SUCCEEDED, True)


def test_a_silent_engine_makes_no_run_lost(box: FolderHost) -> None:
    run = box.add_run()
    (box.engine / "down").touch()
    view = read_state(box.connect(), box.host, run.ref)
    assert (view.state.status, view.supervisor) == (Status.RUNNING, Supervisor.UNKNOWN)


def test_an_end_without_manifest_and_supervisor_can_be_resumed(box: FolderHost) -> None:
    run = box.add_run()
    run.end(manifest=False)
    view = read_state(box.connect(), box.host, run.ref)
    assert (view.state.status, view.complete) == (Status.SUCCEEDED, False)
    assert view.next_step == f"runner resume {run.ref.run_id}"


def test_an_upload_that_broke_off_is_lost_and_was_never_started(box: FolderHost) -> None:
    run = box.add_run(started=False)
    Path(run.layout.plan).unlink()
    view = read_state(box.connect(), box.host, run.ref)
    assert (view.state.status, view.plan) == (Status.LOST, None)
    assert view.state.message == "the upload did not finish; nothing was started"
    with pytest.raises(FileMissing, match="nothing was started"):
        read_plan(box.connect(), run.ref)


def test_a_plan_of_another_version_is_told_as_such(box: FolderHost) -> None:
    run = box.add_run()
    Path(run.layout.plan).write_text('{"run_id": 1}')
    with pytest.raises(ArtifactError, match="not a plan that this version reads"):
        read_plan(box.connect(), run.ref)


def test_the_journal_is_read_by_whole_lines_and_never_twice(box: FolderHost) -> None:
    run = box.add_run()
    reader, _ = open_run(box.fleet(), "demo")
    assert reader.state().status is Status.RUNNING
    run.end()
    whole = Path(run.layout.journal).read_bytes()
    Path(run.layout.journal).write_bytes(whole[:-10])
    assert reader.state().status is Status.RUNNING
    Path(run.layout.journal).write_bytes(whole)
    state = reader.state()
    assert state.status is Status.SUCCEEDED
    assert state.count(Status.SUCCEEDED) == 3

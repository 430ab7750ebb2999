"""A run's history: appended whole, read back, and the state that follows from it."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import ArtifactError
from runner.journal.replay import RunState, derive, replay
from runner.journal.writer import Journal
from runner.models.event import Event, EventKind
from runner.models.plan import Plan
from runner.models.status import Phase, Reason, Status

PLAN = Plan.model_validate_json(
    (Path(__file__).parents[2] / "data" / "plans" / "quickstart.json").read_bytes()
)
CELL, OTHER = PLAN.cells[0].id, PLAN.cells[1].id
SERVER = PLAN.cells[0].server
FINAL = [status for status in Status if status.final]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def written(path: Path, *kinds: EventKind) -> bytes:
    journal = Journal(path)
    for kind in kinds:
        journal.append(kind)
    journal.close()
    return path.read_bytes()


def state_of(*events: tuple[EventKind, dict[str, object]]) -> RunState:
    return derive(
        PLAN,
        [
            Event(sequence=number, at=f"t{number}", kind=kind, **values)
            for number, (kind, values) in enumerate(events)
        ],
    )


# writing


def test_an_event_is_one_line_of_json(path: Path) -> None:
    journal = Journal(path)
    event = journal.append(
        EventKind.CELL_ENDED,
        cell=CELL,
        server=SERVER,
        attempt=2,
        status=Status.FAILED,
        reason=Reason.SERVER_DIED,
        message="two\nlines \u2028 and caf\u00e9",
        data={"figure": 1.5},
    )
    (line,) = path.read_bytes().splitlines()
    assert json.loads(line) == {
        "schema_version": 1,
        "sequence": 0,
        "at": event.at,
        "kind": "cell_ended",
        "cell": CELL,
        "server": SERVER,
        "attempt": 2,
        "status": "FAILED",
        "reason": "server_died",
        "message": "two\nlines \u2028 and caf\u00e9",
        "data": {"figure": 1.5},
    }
    assert list(replay(path.read_bytes())) == [event]


def test_the_sequence_goes_on_when_the_journal_is_opened_again(path: Path) -> None:
    written(path, EventKind.RUN_STARTED, EventKind.NOTE)
    written(path, EventKind.RUN_RESUMED)
    events = list(replay(path.read_bytes()))
    assert [(event.sequence, event.kind) for event in events] == [
        (0, EventKind.RUN_STARTED),
        (1, EventKind.NOTE),
        (2, EventKind.RUN_RESUMED),
    ]


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_any_torn_last_line_is_cut_off(tmp_path_factory: pytest.TempPathFactory, data) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    whole = written(path, EventKind.RUN_STARTED, EventKind.NOTE, EventKind.NOTE)
    size = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:size])
    left = whole[:size].count(b"\n")
    journal = Journal(path)
    assert [event.sequence for event in journal.events] == list(range(left))
    journal.append(EventKind.RUN_RESUMED)
    journal.close()
    assert [event.sequence for event in replay(path.read_bytes())] == list(range(left + 1))


def test_an_event_that_can_not_be_written_leaves_no_trace(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(path)
    journal.append(EventKind.RUN_STARTED)
    before = path.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ArtifactError, match="can't be written: No space left on device"):
            journal.append(EventKind.NOTE)
    assert path.read_bytes() == before
    journal.append(EventKind.RUN_RESUMED)
    assert [event.sequence for event in replay(path.read_bytes())] == [0, 1]


def test_messages_are_masked_and_nothing_else(path: Path) -> None:
    journal = Journal(path, mask=lambda text: text.replace("started", "***"))
    event = journal.append(EventKind.RUN_STARTED, message="started with started")
    assert (event.kind, event.message) == (EventKind.RUN_STARTED, "*** with ***")
    assert list(replay(path.read_bytes())) == [event]
    assert journal.append(EventKind.NOTE).message is None


def test_threads_may_append_together(path: Path) -> None:
    journal = Journal(path)

    def append() -> None:
        for _ in range(20):
            journal.append(EventKind.NOTE)

    threads = [threading.Thread(target=append) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [event.sequence for event in replay(path.read_bytes())] == list(range(80))


def test_close_twice(path: Path) -> None:
    journal = Journal(path)
    journal.close()
    journal.close()


# reading


def test_a_write_in_progress_is_left_out() -> None:
    assert list(replay(b"")) == []
    assert list(replay(b'{"sequence": 0')) == []


@pytest.mark.parametrize("line", [b"{}", b"", b"not json", b'{"kind": "run_started"}'])
def test_a_whole_line_that_is_no_event_is_an_error(path: Path, line: bytes) -> None:
    good = written(path, EventKind.RUN_STARTED)
    with pytest.raises(ArtifactError, match="line 2 is not an event"):
        list(replay(good + line + b"\n"))


def test_a_newer_programs_keys_are_ignored() -> None:
    line = b'{"sequence": 0, "at": "t", "kind": "note", "colour": "red"}\n'
    assert [event.kind for event in replay(line)] == [EventKind.NOTE]


# the state


def test_before_the_first_event() -> None:
    state = derive(PLAN, [])
    assert (state.run_id, state.job, state.status) == (PLAN.run_id, PLAN.job, Status.PENDING)
    assert state.count(Status.PENDING) == len(PLAN.cells)
    assert set(state.servers) == {server.id for server in PLAN.servers}


def test_a_cell_goes_through_its_phases() -> None:
    start = (EventKind.CELL_STARTED, {"cell": CELL, "attempt": 1})
    load = (EventKind.CELL_PHASE, {"cell": CELL, "attempt": 1, "phase": Phase.LOAD})
    end = (
        EventKind.CELL_ENDED,
        {
            "cell": CELL,
            "attempt": 1,
            "status": Status.SUCCEEDED,
            "reason": Reason.COMPLETED,
            "message": "fine",
        },
    )
    cell = state_of(start).cells[CELL]
    assert (cell.status, cell.attempt, cell.phase) == (Status.RUNNING, 1, Phase.PREPARE)
    assert (cell.started_at, cell.ended_at) == ("t0", None)
    assert state_of(start, load).cells[CELL].phase is Phase.LOAD
    cell = state_of(start, load, end).cells[CELL]
    assert (cell.status, cell.reason, cell.message) == (
        Status.SUCCEEDED,
        Reason.COMPLETED,
        "fine",
    )
    assert cell.ended_at == "t2"


def test_a_second_attempt_starts_afresh() -> None:
    lost = {"status": Status.FAILED, "reason": Reason.SUPERVISOR_LOST, "message": "cut off"}
    state = state_of(
        (EventKind.CELL_STARTED, {"cell": CELL, "attempt": 1}),
        (EventKind.CELL_ENDED, {"cell": CELL, "attempt": 1, **lost}),
        (EventKind.CELL_STARTED, {"cell": CELL, "attempt": 2}),
    )
    cell = state.cells[CELL]
    assert (cell.status, cell.attempt, cell.failed_attempts) == (Status.RUNNING, 2, 1)
    assert (cell.reason, cell.message, cell.ended_at) == (None, None, None)


def test_a_cell_that_never_ran_has_a_verdict_too() -> None:
    end = {"cell": OTHER, "attempt": 1, "status": Status.STOPPED, "reason": Reason.STOPPED_BY_USER}
    cell = state_of((EventKind.CELL_ENDED, end)).cells[OTHER]
    assert (cell.status, cell.attempt, cell.started_at) == (Status.STOPPED, 1, None)


def test_servers_are_kept_apart_from_cells() -> None:
    state = state_of((EventKind.SERVER_STARTED, {"server": SERVER, "attempt": 3}))
    assert (state.servers[SERVER].status, state.servers[SERVER].attempt) == (Status.RUNNING, 3)
    assert state.count(Status.RUNNING) == 0


def test_resumed_and_stopped() -> None:
    state = state_of(
        (EventKind.RUN_STARTED, {}),
        (EventKind.RUN_RESUMED, {}),
        (EventKind.RUN_RESUMED, {}),
        (EventKind.STOP_REQUESTED, {}),
    )
    assert (state.status, state.resumed, state.stop_requested) == (Status.RUNNING, 2, True)


def test_what_is_not_in_the_plan_is_ignored() -> None:
    before = derive(PLAN, [])
    started = (EventKind.CELL_STARTED, {"cell": "nobody", "attempt": 1})
    assert state_of(started).cells == before.cells


@pytest.mark.parametrize("first", FINAL)
@pytest.mark.parametrize("kind", [EventKind.RUN_STARTED, EventKind.RUN_ENDED])
def test_a_final_status_is_never_overwritten(first: Status, kind: EventKind) -> None:
    state = state_of(
        (EventKind.RUN_STARTED, {}),
        (EventKind.RUN_ENDED, {"status": first, "reason": Reason.COMPLETED, "message": "first"}),
        (kind, {"status": Status.FAILED, "reason": Reason.CELLS_FAILED, "message": "second"}),
    )
    assert (state.status, state.reason, state.message) == (first, Reason.COMPLETED, "first")
    assert (state.started_at, state.ended_at) == ("t0", "t1")


EVENTS = st.lists(
    st.builds(
        Event,
        sequence=st.integers(0, 99),
        at=st.sampled_from(["t0", "t1"]),
        kind=st.sampled_from(list(EventKind)),
        server=st.sampled_from([None, SERVER, "nobody"]),
        cell=st.sampled_from([None, CELL, OTHER, "nobody"]),
        attempt=st.none() | st.integers(0, 3),
        phase=st.none() | st.sampled_from(list(Phase)),
        status=st.none() | st.sampled_from(list(Status)),
        reason=st.none() | st.sampled_from(list(Reason)),
        message=st.none() | st.just("said"),
    ),
    max_size=12,
)


@settings(deadline=None)
@given(EVENTS)
def test_any_prefix_of_any_history_has_a_state(events: list[Event]) -> None:
    final: RunState | None = None
    for size in range(len(events) + 1):
        state = derive(PLAN, events[:size])
        assert set(state.cells) == {cell.id for cell in PLAN.cells}
        assert sum(state.count(status) for status in Status) == len(PLAN.cells)
        if final is not None:
            assert (state.status, state.reason, state.ended_at) == (
                final.status,
                final.reason,
                final.ended_at,
            )
        elif state.status.final:
            final = state


@settings(deadline=None)
@given(EVENTS)
def test_the_state_follows_from_the_file_alone(events: list[Event]) -> None:
    data = b"".join(event.model_dump_json(exclude_none=True).encode() + b"\n" for event in events)
    assert derive(PLAN, replay(data)) == derive(PLAN, events)

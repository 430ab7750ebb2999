"""The supervisor ends at any moment and starts again: nothing is lost, nothing measured twice."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runner.engine.base import ContainerState
from runner.models.event import EventKind
from runner.models.status import Phase, Reason, Status
from tests.unit.supervisor.life import Life
from tests.unit.supervisor.stage import Load, Stage, staged

BASELINE, TWIN = "baseline-chat-c1-r1", "twin-chat-c2-r1"
STOPPED = "STOPPED stopped_by_user"
EVENTS = 22
"""Journal events of the small run below, when nothing goes wrong."""
CALLS = 18
"""Engine calls of the small run that change something."""


@pytest.fixture
def small(tmp_path: Path, quick: None) -> Iterator[Stage]:
    """Two servers with one cell each."""
    with staged(tmp_path, {"baseline": (1,), "twin": (2,)}) as ready:
        yield ready


def assert_as_if_nothing_had_happened(stage: Stage) -> None:
    """Every cell has one verdict that counts, from the one load that it took."""
    stage.assert_closed()
    cells = {cell.id for cell in stage.plan.cells}
    assert stage.verdicts() == dict.fromkeys(cells, "SUCCEEDED completed")
    counting = [
        event.cell
        for event in stage.events
        if event.kind is EventKind.CELL_ENDED and event.reason is not Reason.SUPERVISOR_LOST
    ]
    assert Counter(counting) == dict.fromkeys(cells, 1)
    assert stage.loads_started() == dict.fromkeys(cells, 1)


def test_the_numbers_of_events_and_calls_are_right(
    small: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the tests below would leave the last ones out."""
    life = Life(small, monkeypatch)
    with pytest.raises(AssertionError, match="ended before the crash"):
        life.run()
    assert (life.events, life.calls) == (EVENTS, CALLS)
    assert_as_if_nothing_had_happened(small)


@pytest.mark.parametrize("number", range(1, EVENTS + 1))
@pytest.mark.parametrize("moment", ["before_event", "after_event"])
def test_a_crash_at_any_event(
    small: Stage, monkeypatch: pytest.MonkeyPatch, moment: str, number: int
) -> None:
    life = Life(small, monkeypatch)
    life.run(**{moment: lambda count, *_: count == number})
    assert small.supervise() is Status.SUCCEEDED, small.log
    assert_as_if_nothing_had_happened(small)


@pytest.mark.parametrize("number", range(1, CALLS + 1))
def test_a_crash_after_any_engine_call(
    small: Stage, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    Life(small, monkeypatch).run(after_call=lambda count, _: count == number)
    assert small.supervise() is Status.SUCCEEDED, small.log
    assert_as_if_nothing_had_happened(small)


def at_load(cell: str = BASELINE) -> Callable[..., bool]:
    """True for the event that says this cell's load has started."""
    seen: list[Phase] = []

    def reached(_count: int, _kind: EventKind, phase: Phase | None) -> bool:
        seen.extend([phase] if phase is Phase.LOAD else [])
        return phase is Phase.LOAD and len(seen) == (1 if cell == BASELINE else 2)

    return reached


def test_a_load_that_still_runs_is_adopted(small: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    small.load(BASELINE, Load(until_stopped=True))
    Life(small, monkeypatch).run(after_event=at_load())
    name = small.load_name(BASELINE)
    small.engine.emit(name, b"half way\n")
    threading.Timer(0.1, small.engine.finish, (name, 0)).start()
    assert small.supervise() is Status.SUCCEEDED, small.log
    assert_as_if_nothing_had_happened(small)
    assert small.endpoints["baseline"].boots == 1
    # the proof and two requests of warm-up came from the first life, and none from the second
    assert len(small.endpoints["baseline"].chats) == 3
    output = Path(small.layout.attempt(BASELINE, 1).load_log).read_bytes()
    assert output == f"load of {BASELINE}\nhalf way\n".encode()
    assert small.timeline[6:10] == [
        f"cell_phase {BASELINE}#1 load",
        "run_resumed",
        f"cell_phase {BASELINE}#1 verify",
        f"cell_phase {BASELINE}#1 record",
    ]


def test_an_adopted_server_keeps_its_checks_and_its_log(
    small: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    Life(small, monkeypatch).run(after_event=at_load(TWIN))
    ready = [event.data for event in small.events if event.phase is Phase.READY]
    small.engine.emit(small.server_name("twin"), b"still here\n")
    small.supervise()
    result = small.server_result("twin")
    assert [(check.name, check.verdict) for check in result.checks] == [
        ("served_name", "ok"),
        ("effective_speculation", "ok"),
        ("real_acceptance", "ok"),
        ("effective_settings", "ok"),
        ("no_fallback", "ok"),
        ("proof_request", "ok"),
        ("speculative_metrics", "ok"),
        ("speculative_counters", "ok"),
    ]
    assert result.ready_after_s == ready[1]["ready_after_s"]
    log = Path(small.layout.server("twin", 1).log).read_bytes()
    assert log == b"loading\nready\nstill here\n"


def test_a_cell_that_was_cut_off_before_its_load_gets_a_second_attempt(
    small: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    Life(small, monkeypatch).run(after_event=lambda _n, _k, phase: phase is Phase.WARMUP)
    small.supervise()
    small.assert_closed()
    assert small.result(BASELINE, 1).reason is Reason.SUPERVISOR_LOST
    assert small.result(BASELINE, 1).message == "attempt 1 was cut off when the supervisor ended"
    assert small.result(BASELINE, 2).status is Status.SUCCEEDED
    assert small.result(BASELINE, 2).server_attempt == 1
    assert small.endpoints["baseline"].boots == 1


def test_a_server_that_was_not_proven_is_started_anew_and_its_log_kept(
    small: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    Life(small, monkeypatch).run(before_event=lambda _n, _k, phase: phase is Phase.READY)
    small.engine.emit(small.server_name("baseline"), b"said while nobody listened\n")
    small.supervise()
    small.assert_closed()
    assert small.endpoints["baseline"].boots == 2
    assert small.server_result("baseline", 1).reason is Reason.SUPERVISOR_LOST
    layout = small.layout.server("baseline", 1)
    assert Path(layout.log).read_bytes() == b"loading\nready\nsaid while nobody listened\n"
    assert json.loads(Path(layout.inspect).read_bytes())["State"]["ExitCode"] == 0
    assert small.result(BASELINE).server_attempt == 2


def test_a_server_that_died_meanwhile(small: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its server a load can't be judged: cut off by the host, it gets a new attempt."""
    small.load(BASELINE, Load(until_stopped=True))
    Life(small, monkeypatch).run(after_event=at_load())
    small.engine.finish(small.server_name("baseline"), 137)
    small.load(BASELINE, Load())
    assert small.supervise() is Status.SUCCEEDED
    small.assert_closed()
    assert small.loads_started() == {BASELINE: 2, TWIN: 1}
    assert small.result(BASELINE, 1).reason is Reason.SUPERVISOR_LOST
    assert small.result(BASELINE, 2).status is Status.SUCCEEDED
    inspect = Path(small.layout.server("baseline", 1).inspect).read_bytes()
    assert json.loads(inspect)["State"]["ExitCode"] == 137


def test_a_verdict_on_disk_stands(small: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad measurement is not made again because the supervisor ended beside it."""
    small.load(BASELINE, Load(errors=2))
    Life(small, monkeypatch).run(before_event=lambda _n, kind, _p: kind is EventKind.CELL_ENDED)
    before = Path(small.layout.attempt(BASELINE, 1).result).read_bytes()
    small.load(BASELINE, Load())
    assert small.supervise() is Status.FAILED
    small.assert_closed()
    assert small.verdicts()[BASELINE] == "FAILED request_errors"
    assert small.loads_started() == {BASELINE: 1, TWIN: 1}
    assert Path(small.layout.attempt(BASELINE, 1).result).read_bytes() == before


@pytest.mark.parametrize("call", ["stop", "remove"])
def test_a_stop_that_was_cut_off(small: Stage, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """AIPerf got its SIGINT from a supervisor that then ended: its user stopped it all the same."""
    small.load(
        BASELINE,
        Load(requests=2, cancelled=True, until_stopped=True, meanwhile=small.ask_to_stop),
    )
    Life(small, monkeypatch).run(after_call=lambda _n, name: name == call)
    assert small.supervise() is Status.STOPPED
    small.assert_closed()
    assert small.verdicts() == {BASELINE: STOPPED, TWIN: STOPPED}
    counts = small.result(BASELINE).counts
    assert counts is not None and counts.recorded == 2
    assert small.timeline.count(f"note {BASELINE}#1 stopped_by_user") == 1
    assert small.timeline.count("stop_requested") == 1


def test_a_time_limit_that_was_cut_off(small: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    small.change_cells(timeout_s=0.05)
    small.load(BASELINE, Load(requests=2, cancelled=True, until_stopped=True))
    Life(small, monkeypatch).run(after_call=lambda _n, name: name == "stop")
    assert small.supervise() is Status.FAILED
    small.assert_closed()
    assert small.verdicts()[BASELINE] == "FAILED load_timed_out"


@pytest.mark.parametrize("cell", [BASELINE, TWIN])
def test_a_stop_while_the_supervisor_is_away(
    small: Stage, monkeypatch: pytest.MonkeyPatch, cell: str
) -> None:
    small.load(cell, Load(requests=1, cancelled=True, until_stopped=True))
    Life(small, monkeypatch).run(after_event=at_load(cell))
    small.ask_to_stop()
    assert small.supervise() is Status.STOPPED
    small.assert_closed()
    assert small.verdicts()[cell] == STOPPED
    assert small.verdicts()[TWIN] == STOPPED
    assert (small.load_name(cell), "SIGINT") in small.engine.signals
    assert small.endpoints["twin"].boots == (cell == TWIN)


def test_a_stop_that_was_being_carried_out_is_said_once(
    small: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.ask_to_stop()
    Life(small, monkeypatch).run(after_event=lambda _n, kind, _p: kind is EventKind.CELL_ENDED)
    assert small.supervise() is Status.STOPPED
    small.assert_closed()
    assert small.timeline == [
        "run_started",
        "stop_requested",
        f"cell_ended {BASELINE}#1 {STOPPED}",
        "run_resumed",
        f"cell_ended {TWIN}#1 {STOPPED}",
        f"run_ended {STOPPED}",
    ]


def broken(stage: Stage) -> None:
    """The first server ends at once."""
    program = stage.endpoints["baseline"].program(until_stopped=False, exit_code=1)
    stage.engine.program(stage.server_name("baseline", "*"), program)


@pytest.mark.parametrize("number", range(1, 10))
def test_a_server_that_could_not_start_is_not_tried_again(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Wherever the supervisor ends: one start that failed is the last one."""
    with staged(tmp_path, {"baseline": (1, 2), "twin": (1,)}) as stage:
        broken(stage)
        Life(stage, monkeypatch).run(before_event=lambda count, *_: count == number)
        assert stage.supervise() is Status.FAILED
        stage.assert_closed()
        failed = [text for text in stage.timeline if "server_start_failed" in text]
        assert failed[0].startswith("server_ended baseline#")
        assert len(failed) == 3
        assert stage.loads_started() == {"twin-chat-c1-r1": 1}


def test_deaths_are_counted_over_all_lives(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with staged(tmp_path, {"baseline": (1, 2, 3, 4, 5)}) as stage:
        cells = [cell.id for cell in stage.plan.cells]
        die = partial(stage.kill_server, "baseline")
        for cell in cells:
            stage.load(cell, Load(until_stopped=True, meanwhile=die))
        Life(stage, monkeypatch).run(
            after_event=lambda _n, _k, _p: stage.endpoints["baseline"].boots == 3
        )
        assert stage.supervise() is Status.FAILED
        stage.assert_closed()
        # the third attempt was cut off, so the third death is that of the fourth
        assert stage.endpoints["baseline"].boots == 4
        assert stage.verdicts() == dict.fromkeys(cells, "FAILED server_died")


def test_a_container_that_was_made_and_never_started_is_no_load(
    small: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    Life(small, monkeypatch).run(after_event=at_load())
    usual = small.engine.list

    def listed(*arguments: Any, **options: Any) -> tuple[ContainerState, ...]:
        return tuple(
            replace(state, status="created") if state.name == small.load_name(BASELINE) else state
            for state in usual(*arguments, **options)
        )

    monkeypatch.setattr(small.engine, "list", listed)
    assert small.supervise() is Status.SUCCEEDED
    assert small.result(BASELINE, 1).reason is Reason.SUPERVISOR_LOST
    assert small.result(BASELINE, 2).status is Status.SUCCEEDED


def test_a_run_that_ended_without_its_manifest(
    small: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    Life(small, monkeypatch).run(after_event=lambda _n, kind, _p: kind is EventKind.RUN_ENDED)
    assert not Path(small.layout.manifest).exists()
    before = small.timeline
    assert small.supervise() is Status.SUCCEEDED
    assert small.timeline == before
    small.assert_closed()

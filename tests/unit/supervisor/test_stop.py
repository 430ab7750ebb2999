"""A run that its user stops, at every stage of it."""

from __future__ import annotations

from pathlib import Path

from runner.models.result import RequestCounts
from runner.models.status import Status
from tests.unit.supervisor.stage import Load, Stage
from tests.unit.supervisor.words import (
    ALL,
    C1,
    C2,
    GOOD,
    STOPPED,
    TWIN_C1,
)


def test_stop_before_anything_runs(stage: Stage) -> None:
    stage.ask_to_stop()
    assert stage.supervise() is Status.STOPPED
    stage.assert_closed()
    assert stage.timeline == [
        "run_started",
        "stop_requested",
        *(f"cell_ended {cell}#1 {STOPPED}" for cell in ALL),
        f"run_ended {STOPPED}",
    ]
    assert [spec.name for spec in stage.engine.started] == [stage.plan.supervisor.name]


def test_stop_while_a_server_starts(stage: Stage) -> None:
    endpoint = stage.endpoints["baseline"]
    endpoint.scripted["/health"] = (503, b"")
    boot = endpoint.program().on_start
    assert boot is not None

    def start_then_stop(*arguments) -> None:
        boot(*arguments)
        stage.ask_to_stop()

    program = endpoint.program(on_start=start_then_stop)
    stage.engine.program(stage.server_name("baseline", "*"), program)
    assert stage.supervise() is Status.STOPPED
    stage.assert_closed()
    assert stage.timeline == [
        "run_started",
        "server_started baseline#1",
        "server_phase baseline#1 serve",
        f"server_ended baseline#1 {STOPPED}",
        "stop_requested",
        *(f"cell_ended {cell}#1 {STOPPED}" for cell in ALL),
        f"run_ended {STOPPED}",
    ]


def test_stop_in_the_warm_up(stage: Stage) -> None:
    seen: list[int] = []

    def stop_after_the_proof() -> None:
        seen.append(1)
        if len(seen) == 2:
            stage.ask_to_stop()

    stage.endpoints["baseline"].before_chat = stop_after_the_proof
    assert stage.supervise() is Status.STOPPED
    stage.assert_closed()
    assert stage.result(C1).message == "stopped before the load began"
    assert stage.result(C2).message == "not started"
    assert stage.loads_started() == {}


def test_stop_while_loading_keeps_what_was_measured(stage: Stage) -> None:
    load = Load(requests=3, cancelled=True, until_stopped=True, meanwhile=stage.ask_to_stop)
    stage.load(C1, load)
    assert stage.supervise() is Status.STOPPED
    stage.assert_closed()
    assert stage.verdicts() == dict.fromkeys(ALL, STOPPED)
    assert stage.engine.signals == [
        (stage.load_name(C1), "SIGINT"),
        (stage.server_name("baseline"), "SIGTERM"),
    ]
    result = stage.result(C1)
    assert result.message == "stopped while the load was running"
    assert result.load_exit_code == 0
    assert result.counts == RequestCounts(
        planned=4, recorded=3, good=3, errors=0, cancelled=0, empty=0
    )
    exports = Path(stage.layout.attempt(C1, 1).exports)
    assert len((exports / "profile_export.jsonl").read_text().splitlines()) == 3
    assert stage.server_result("baseline").status is Status.STOPPED


def test_stop_between_cells(stage: Stage) -> None:
    stage.load(C1, Load(meanwhile=stage.ask_to_stop))
    assert stage.supervise() is Status.STOPPED
    stage.assert_closed()
    # the load had ended when the request was seen: it is a measurement like any other
    assert stage.verdicts() == {C1: GOOD, C2: STOPPED, TWIN_C1: STOPPED}


def test_stop_when_nothing_is_left_to_stop(stage: Stage) -> None:
    stage.load(TWIN_C1, Load(meanwhile=stage.ask_to_stop))
    assert stage.supervise() is Status.SUCCEEDED
    stage.assert_closed()
    assert stage.verdicts() == dict.fromkeys(ALL, GOOD)

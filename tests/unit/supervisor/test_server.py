"""A server that does not get ready, is not the planned one, or dies."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest

from runner.engine.base import LogChunk
from runner.models.plan import Readiness
from runner.models.status import Reason, Status
from runner.supervisor import server as server_module
from tests.unit.supervisor.planned import IMAGES, TWIN
from tests.unit.supervisor.stage import Load, Stage, staged
from tests.unit.supervisor.words import (
    ALL,
    C1,
    C2,
    GOOD,
    TWIN_C1,
    cell_events,
    server_events,
)

# a server that is not what it should be


def test_a_server_that_ends_at_once(stage: Stage) -> None:
    trouble = b"Traceback\nvllm serve: error: unrecognized arguments: --nope\nmore noise\n"
    program = stage.endpoints["baseline"].program(
        output=(LogChunk("stderr", trouble),), until_stopped=False, exit_code=2
    )
    stage.engine.program(stage.server_name("baseline", "*"), program)
    assert stage.supervise() is Status.FAILED
    stage.assert_closed()
    failed = "FAILED server_start_failed"
    assert stage.verdicts() == {C1: failed, C2: failed, TWIN_C1: GOOD}
    assert stage.endpoints["baseline"].boots == 1
    why = (
        "it ended with exit code 2; unknown_argument: vllm serve: error: unrecognized arguments:"
        " --nope (drop the argument that this image does not know)"
    )
    assert stage.server_result("baseline").message == why
    assert stage.result(C1).message == f"server 'baseline': {why}"
    assert Path(stage.layout.server("baseline", 1).log).read_bytes() == trouble
    assert stage.loads_started() == {TWIN_C1: 1}


def test_a_server_killed_for_memory_while_it_loads(stage: Stage) -> None:
    program = stage.endpoints["twin"].program(until_stopped=False, exit_code=137, oom_killed=True)
    stage.engine.program(stage.server_name("twin", "*"), program)
    stage.supervise()
    assert stage.server_result("twin").message == (
        "it ended with exit code 137, killed by the kernel for memory; "
        "no known cause; last lines: loading | ready"
    )


def test_a_server_that_says_nothing(stage: Stage) -> None:
    stage.change_server("baseline", readiness=Readiness(quiet_s=0.1, hard_s=60))
    stage.endpoints["baseline"].scripted["/health"] = (503, b"")
    assert stage.supervise() is Status.FAILED
    stage.assert_closed()
    assert stage.verdicts()[C1] == "FAILED server_not_ready"
    assert stage.server_result("baseline").message == (
        "no log line and no CPU use for 0 s; last line: ready"
    )


def test_a_server_that_talks_and_never_gets_ready(stage: Stage) -> None:
    stage.change_server("baseline", readiness=Readiness(quiet_s=60, hard_s=0.1))
    stage.endpoints["baseline"].scripted["/health"] = (503, b"")
    stage.supervise()
    stage.assert_closed()
    assert stage.server_result("baseline").reason is Reason.SERVER_NOT_READY
    assert stage.server_result("baseline").message == "not ready within 0 s; last line: ready"


def test_cpu_use_counts_as_progress(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_CPU_EVERY_S", 0.01)
    stage.change_server("baseline", readiness=Readiness(quiet_s=0.1, hard_s=0.4))
    stage.endpoints["baseline"].scripted["/health"] = (503, b"")
    used = iter(range(1, 10_000))
    monkeypatch.setattr(stage.engine, "cpu_seconds", lambda _: float(next(used)))
    stage.supervise()
    assert "not ready within" in stage.server_result("baseline").message


def test_a_foreign_server(stage: Stage) -> None:
    stage.endpoints["baseline"].wrong_name = True
    assert stage.supervise() is Status.FAILED
    stage.assert_closed()
    foreign = "FAILED foreign_server"
    assert stage.verdicts() == {C1: foreign, C2: foreign, TWIN_C1: GOOD}
    assert stage.server_result("baseline").message == (
        "expected 'tiny-baseline-3f9a', the server offers ['somebody-elses-model']"
    )
    assert stage.endpoints["baseline"].chats == []


def test_another_speculative_configuration_than_planned(stage: Stage) -> None:
    stage.change_server("twin", speculative=TWIN.model_copy(update={"num_speculative_tokens": 5}))
    assert stage.supervise() is Status.FAILED
    stage.assert_closed()
    assert stage.verdicts()[TWIN_C1] == "FAILED configuration_differs"
    assert stage.server_result("twin").message == ("num_speculative_tokens is 3, the plan says 5")


def test_a_baseline_that_speculates(stage: Stage) -> None:
    stage.change_server("twin", speculative=None)
    stage.supervise()
    assert stage.server_result("twin").message == "speculation is 'on', the plan says 'off'"


def test_the_server_image_is_missing(stage: Stage) -> None:
    del stage.engine.images[IMAGES["server"]]
    assert stage.supervise() is Status.FAILED
    stage.assert_closed()
    assert stage.verdicts() == dict.fromkeys(ALL, "FAILED server_start_failed")
    image = IMAGES["server"]
    assert stage.result(C1).message == f"server 'baseline': image {image} is not there"


# a server that dies


def test_a_server_dies_in_the_middle_of_a_load(stage: Stage) -> None:
    die = partial(stage.kill_server, "baseline")
    stage.load(C1, Load(requests=1, cancelled=True, until_stopped=True, meanwhile=die))
    assert stage.supervise() is Status.FAILED
    stage.assert_closed()
    assert stage.verdicts() == {C1: "FAILED server_died", C2: GOOD, TWIN_C1: GOOD}
    assert stage.timeline[4:15] == [
        *cell_events(C1)[:3],
        f"note {C1}#1 server_died",
        *cell_events(C1, end="FAILED server_died")[3:],
        "server_ended baseline#1 FAILED server_died",
        *server_events("baseline", attempt=2),
    ]
    assert stage.timeline[15:21] == cell_events(C2)
    assert stage.result(C1).message == (
        "server 'baseline' ended with exit code 137, killed by the kernel for memory; "
        "its last line: ready"
    )
    assert stage.result(C2).server_attempt == 2
    assert (stage.load_name(C1), "SIGINT") in stage.engine.signals


def test_a_server_dies_and_the_load_ends_by_itself(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AIPerf gets refused connections and ends before the engine has seen the server's end."""
    monkeypatch.setattr(server_module, "_DEATH_NOTICE_S", 60)
    name, endpoint = stage.server_name("baseline"), stage.endpoints["baseline"]

    def broken() -> None:
        endpoint.scripted["/metrics"] = (500, b"")
        threading.Timer(0.05, die).start()

    def die() -> None:
        stage.engine.finish(name, 139)
        endpoint.scripted.clear()

    stage.load(C1, Load(errors=4, meanwhile=broken))
    stage.supervise()
    stage.assert_closed()
    assert stage.verdicts() == {C1: "FAILED server_died", C2: GOOD, TWIN_C1: GOOD}


def test_a_server_dies_in_the_warm_up(stage: Stage) -> None:
    endpoint, seen = stage.endpoints["baseline"], []

    def die_after_the_proof() -> None:
        seen.append(1)
        if len(seen) == 2:
            stage.engine.finish(stage.server_name("baseline"), 139)

    endpoint.before_chat = die_after_the_proof
    stage.supervise()
    stage.assert_closed()
    assert stage.verdicts() == {C1: "FAILED server_died", C2: GOOD, TWIN_C1: GOOD}
    assert stage.loads_started() == {C2: 1, TWIN_C1: 1}


def test_a_server_dies_of_its_first_request(stage: Stage) -> None:
    def die() -> None:
        name = stage.server_name("baseline")
        stage.engine.emit(name, b"RuntimeError: HIP error: invalid device function\n")
        stage.engine.finish(name, 1)

    stage.endpoints["baseline"].before_chat = die
    stage.supervise()
    stage.assert_closed()
    assert stage.verdicts()[C1] == "FAILED server_start_failed"
    assert "invalid_device_function" in stage.result(C1).message


def test_a_server_that_dies_three_times_is_given_up(tmp_path: Path, quick: None) -> None:
    with staged(tmp_path, {"baseline": (1, 2, 3, 4, 5)}) as stage:
        cells = [cell.id for cell in stage.plan.cells]
        die = partial(stage.kill_server, "baseline")
        for cell in cells:
            stage.load(cell, Load(until_stopped=True, meanwhile=die))
        assert stage.supervise() is Status.FAILED
        stage.assert_closed()
        assert stage.endpoints["baseline"].boots == 3
        assert stage.verdicts() == dict.fromkeys(cells, "FAILED server_died")
        assert stage.loads_started() == dict.fromkeys(cells[:3], 1)
        assert stage.result(cells[4]).message == "server 'baseline': it died 3 times"
        assert stage.result(cells[4]).server_attempt is None

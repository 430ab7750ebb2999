"""Whole runs on a fake engine: what a good one leaves, and which measurements do not count."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from runner.errors import EngineError
from runner.models.host import Role
from runner.models.plan import LABEL_ROLE
from runner.models.result import RequestCounts
from runner.models.status import Reason, Status
from runner.supervisor import cell as cell_module
from runner.supervisor.__main__ import main
from runner.supervisor.server import RunningServer
from tests.fixtures.fake_engine import Program
from tests.unit.supervisor.planned import IMAGES
from tests.unit.supervisor.stage import PLANTED, Load, Stage
from tests.unit.supervisor.words import (
    ALL,
    C1,
    C2,
    GOOD,
    TWIN_C1,
    cell_events,
    server_events,
)


def files_of(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(".times")
    }


# all is well


def test_all_good(stage: Stage) -> None:
    assert stage.supervise() is Status.SUCCEEDED, stage.log
    stage.assert_closed()
    assert stage.timeline == [
        "run_started",
        *server_events("baseline"),
        *cell_events(C1),
        *cell_events(C2),
        f"server_ended baseline#1 {GOOD}",
        *server_events("twin"),
        *cell_events(TWIN_C1),
        f"server_ended twin#1 {GOOD}",
        f"run_ended {GOOD}",
    ]
    assert stage.events[-1].message == "3 of 3 cells succeeded"


def test_what_a_good_run_leaves_on_disk(stage: Stage) -> None:
    stage.supervise()
    assert files_of(stage.run_dir / "cells" / TWIN_C1) == {
        "attempt-1/result.json",
        "attempt-1/server/metrics_before.prom",
        "attempt-1/server/metrics_after.prom",
        "attempt-1/server/server.json",
        "attempt-1/load/spec.json",
        "attempt-1/load/inspect.json",
        "attempt-1/load/output.log",
        "attempt-1/load/aiperf/profile_export.jsonl",
        "attempt-1/load/aiperf/profile_export_aiperf.json",
        "attempt-1/load/aiperf/.aiperf_results_ready.json",
    }
    assert files_of(stage.run_dir / "servers" / "twin") == {
        "attempt-1/result.json",
        "attempt-1/spec.json",
        "attempt-1/inspect.json",
        "attempt-1/output.log",
        "attempt-1/models.json",
        "attempt-1/server_info.json",
        "attempt-1/proof.json",
        "attempt-1/metrics_ready.prom",
    }
    layout = stage.layout.attempt(TWIN_C1, 1)
    assert Path(layout.load_log).read_bytes() == f"load of {TWIN_C1}\n".encode()
    assert json.loads(Path(layout.server_pointer).read_text()) == {
        "server": "twin",
        "attempt": 1,
        "path": "servers/twin/attempt-1",
    }
    assert Path(stage.layout.server("twin", 1).log).read_bytes() == b"loading\nready\n"


def test_results_of_a_good_run(stage: Stage) -> None:
    stage.supervise()
    result = stage.result(TWIN_C1)
    assert (result.status, result.reason) == (Status.SUCCEEDED, Reason.COMPLETED)
    assert (result.server, result.server_attempt, result.load_exit_code) == ("twin", 1, 0)
    assert result.counts == RequestCounts(
        planned=4, recorded=4, good=4, errors=0, cancelled=0, empty=0
    )
    figures = {check.name: check.figures for check in result.checks}
    # the two warm-up requests and the proof are before the scrape: 4 requests of 2 steps remain
    assert figures["counters"]["drafts_counted"] == 8
    assert figures["counters"]["accepted_counted"] == 24
    server = stage.server_result("twin")
    assert (server.status, server.reason, server.exit_code) == ("SUCCEEDED", "completed", 0)
    assert server.ready_after_s is not None
    assert [(check.name, check.verdict) for check in server.checks] == [
        ("served_name", "ok"),
        ("effective_speculation", "ok"),
        ("real_acceptance", "ok"),
        ("effective_settings", "ok"),
        ("no_fallback", "ok"),
        ("proof_request", "ok"),
        ("speculative_metrics", "ok"),
        ("speculative_counters", "ok"),
    ]


def test_warm_up_is_at_the_cells_concurrency_and_in_no_measured_set(stage: Stage) -> None:
    stage.supervise()
    # proof, then max(2 warm-up requests, concurrency) for each of the two cells
    chats = stage.endpoints["baseline"].chats
    assert len(chats) == 1 + 2 + 2
    assert {chat["messages"][0]["content"] for chat in chats} == {"Say hello."}
    assert {chat["max_completion_tokens"] for chat in chats} == {5}


def test_containers_end_in_the_planned_way(stage: Stage) -> None:
    stage.supervise()
    assert stage.engine.signals == [
        (stage.server_name("baseline"), "SIGTERM"),
        (stage.server_name("twin"), "SIGTERM"),
    ]
    assert stage.engine.secrets[stage.server_name("twin")] == {"HF_TOKEN": PLANTED}
    assert stage.engine.secrets[stage.load_name(TWIN_C1)] == {}


def test_prefix_cache_is_reset_before_every_cell(stage: Stage) -> None:
    stage.change_server("baseline", prefix_caching=True)
    assert stage.supervise() is Status.SUCCEEDED
    assert stage.endpoints["baseline"].resets == 2
    assert stage.endpoints["twin"].resets == 0
    for cell, words in ((C1, "was emptied before"), (TWIN_C1, "is off")):
        state = {check.name: check for check in stage.result(cell).checks}["prefix_cache_state"]
        assert (state.verdict, words in state.message) == ("ok", True)


def test_a_prefix_cache_that_can_not_be_reset_is_said(stage: Stage) -> None:
    stage.change_server("baseline", prefix_caching=True)
    stage.endpoints["baseline"].scripted["/reset_prefix_cache"] = (404, b"{}")
    stage.supervise()
    state = {check.name: check for check in stage.result(C1).checks}["prefix_cache_state"]
    assert state.verdict == "warn"
    assert state.message.endswith("whether the cache was cold is open: the server did not empty it")


def test_a_finished_run_is_left_as_it_is(stage: Stage) -> None:
    stage.load(C1, Load(errors=2))
    assert stage.supervise() is Status.FAILED
    before = {path: path.read_bytes() for path in stage.run_dir.rglob("*") if path.is_file()}
    assert stage.supervise() is Status.FAILED
    after = {path: path.read_bytes() for path in stage.run_dir.rglob("*") if path.is_file()}
    assert before == after


def test_without_its_own_container_the_run_still_works(stage: Stage) -> None:
    stage.engine.remove(stage.plan.supervisor.name)
    assert stage.supervise() is Status.SUCCEEDED
    assert "not running in the planned container" in stage.log
    assert stage.engine.networks == {}


# a measurement that does not count


def test_half_of_the_requests_fail(stage: Stage) -> None:
    stage.load(C1, Load(errors=2))
    assert stage.supervise() is Status.FAILED
    stage.assert_closed()
    assert stage.verdicts() == {C1: "FAILED request_errors", C2: GOOD, TWIN_C1: GOOD}
    assert stage.loads_started()[C1] == 1
    result = stage.result(C1)
    assert result.load_exit_code == 0
    assert result.counts == RequestCounts(
        planned=4, recorded=4, good=2, errors=2, cancelled=0, empty=0
    )
    assert result.message == "2 of 4 failed: 500 Internal Server Error (limit 0 %)"
    assert stage.events[-1].reason is Reason.CELLS_FAILED
    assert stage.events[-1].message == "2 of 3 cells succeeded"


def test_a_load_that_fails(stage: Stage) -> None:
    stage.load(C2, Load(requests=0, exit_code=2, cancelled=True))
    assert stage.supervise() is Status.FAILED
    stage.assert_closed()
    assert stage.verdicts()[C2] == "FAILED incomplete"
    assert stage.result(C2).load_exit_code == 2


def test_a_load_that_takes_too_long(stage: Stage) -> None:
    stage.change_cells(timeout_s=0.05)
    stage.load(C1, Load(requests=1, cancelled=True, until_stopped=True))
    assert stage.supervise() is Status.FAILED
    stage.assert_closed()
    assert stage.verdicts() == {C1: "FAILED load_timed_out", C2: GOOD, TWIN_C1: GOOD}
    assert stage.result(C1).message == "not done within 0 s"
    assert (stage.load_name(C1), "SIGINT") in stage.engine.signals
    counts = stage.result(C1).counts
    assert counts is not None and counts.recorded == 1
    assert f"note {C1}#1 load_timed_out" in stage.timeline


def test_a_load_that_the_engine_refuses(stage: Stage) -> None:
    refused = Program(refused=EngineError("no space left on device"))
    stage.engine.program(stage.load_name(C1, "*"), refused)
    assert stage.supervise() is Status.FAILED
    stage.assert_closed()
    assert stage.verdicts() == {C1: "FAILED engine_error", C2: GOOD, TWIN_C1: GOOD}
    assert stage.result(C1).message == "no space left on device"


def test_a_load_whose_output_can_not_be_read_does_not_go_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.load(C1, Load(until_stopped=True))
    usual = stage.engine.logs

    def logs(container: str):
        if stage.engine.state(container).name == stage.load_name(C1):
            raise EngineError("the log driver does not support reading")
        return usual(container)

    monkeypatch.setattr(stage.engine, "logs", logs)
    left = []
    stage.load(C2, Load(meanwhile=lambda: left.extend(stage.engine.list({}))))
    assert stage.supervise() is Status.FAILED
    stage.assert_closed()
    assert stage.verdicts()[C1] == "FAILED engine_error"
    assert stage.load_name(C1) not in {state.name for state in left}


def test_a_load_that_can_not_be_watched_is_ended_before_the_counters_are_read(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.load(C1, Load(until_stopped=True))
    wait, settled = stage.engine.wait, cell_module._settled_metrics
    running: list[list[str]] = []

    def lost(container: str, timeout_s: float) -> int | None:
        if stage.engine.state(container).name == stage.load_name(C1):
            raise EngineError("the connection to the engine broke")
        return wait(container, timeout_s)

    def scrape(server: RunningServer) -> str:
        labels = {LABEL_ROLE: Role.LOAD.value}
        running.append([state.name for state in stage.engine.list(labels, all_states=False)])
        return settled(server)

    monkeypatch.setattr(stage.engine, "wait", lost)
    monkeypatch.setattr(cell_module, "_settled_metrics", scrape)
    stage.supervise()
    stage.assert_closed()
    assert stage.verdicts() == {C1: "FAILED engine_error", C2: GOOD, TWIN_C1: GOOD}
    assert running == [[]] * 6
    inspect = json.loads(Path(stage.layout.attempt(C1, 1).load_inspect).read_text())
    assert inspect["Name"] == f"/{stage.load_name(C1)}"


@pytest.mark.parametrize(
    ("drafts", "settled"), [((1, 1), 1), ((1, 2, 2), 2), ((1, 2, 3, 3), 3), (range(99), 50)]
)
def test_counters_are_read_when_they_are_at_rest(
    quick: None, drafts: Sequence[int], settled: int
) -> None:
    texts = (f"vllm:spec_decode_num_drafts_total {number}\nup {time.time()}\n" for number in drafts)
    server = SimpleNamespace(client=SimpleNamespace(metrics=lambda: next(texts)))
    text = cell_module._settled_metrics(server)
    assert text.splitlines()[0] == f"vllm:spec_decode_num_drafts_total {settled}"


def test_the_load_image_is_missing(stage: Stage) -> None:
    del stage.engine.images[IMAGES["load"]]
    assert stage.supervise() is Status.FAILED
    stage.assert_closed()
    assert stage.verdicts() == dict.fromkeys(ALL, "FAILED engine_error")


def test_the_warm_up_fails(stage: Stage) -> None:
    endpoint = stage.endpoints["baseline"]
    seen = []

    def fail_after_the_proof() -> None:
        seen.append(1)
        if len(seen) == 2:
            endpoint.scripted["/v1/chat/completions"] = (500, b'{"error": "EngineDeadError"}')

    endpoint.before_chat = fail_after_the_proof
    stage.supervise()
    stage.assert_closed()
    assert stage.verdicts()[C1] == "FAILED load_failed"
    expected = '/v1/chat/completions answered 500: {"error": "EngineDeadError"}'
    assert stage.result(C1).message == f"warm-up failed: {expected}"


# the program


def test_the_program_wants_a_run_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 2
    assert "RUN_DIR" in capsys.readouterr().err


def test_an_engine_that_is_down_ends_the_supervisor_and_not_the_run(stage: Stage) -> None:
    def down() -> None:
        stage.engine.down = EngineError("the engine does not answer")

    stage.load(C1, Load(meanwhile=down))
    with pytest.raises(EngineError):
        stage.supervise()
    assert "the supervisor failed" in stage.log
    assert not Path(stage.layout.manifest).exists()
    stage.engine.down = None
    assert stage.supervise() is Status.FAILED
    stage.assert_closed()

"""Conditions that are tried: refused is unavailable, anything else is what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.engine.base import LogChunk
from runner.models.status import Reason, Status
from runner.supervisor.causes import refusal

from .stage import Stage
from .words import C1, C2, GOOD, TWIN_C1

VLLM = Path(__file__).parents[2] / "data" / "vllm"
WORDS = "Unsupported speculative method: 'mtp'"
REFUSES = (
    b"INFO loading\n"
    b"(EngineCore pid=9) ERROR NotImplementedError: Unsupported speculative method: 'mtp'\n"
    b"(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.\n"
)


def refuse(stage: Stage, server: str, output: bytes = REFUSES, **how: object) -> None:
    """That server ends by itself before it is ready."""
    values = {"until_stopped": False, "exit_code": 1, **how}
    program = stage.endpoints[server].program(output=(LogChunk("stderr", output),), **values)
    stage.engine.program(stage.server_name(server, "*"), program)


def test_an_optional_server_that_refuses_makes_its_cells_unavailable(stage: Stage) -> None:
    stage.change_server("twin", optional=True)
    refuse(stage, "twin")
    assert stage.supervise() is Status.SUCCEEDED
    stage.assert_closed()
    assert stage.verdicts() == {C1: GOOD, C2: GOOD, TWIN_C1: "UNAVAILABLE server_refused"}
    assert stage.result(TWIN_C1).message == f"unavailable: {WORDS}"
    server = stage.server_result("twin")
    assert (server.status, server.reason, server.message) == (
        Status.UNAVAILABLE,
        Reason.SERVER_REFUSED,
        WORDS,
    )
    assert "2 of 3 cells succeeded, 1 unavailable" in stage.log


@pytest.mark.parametrize(
    "how", [{"exit_code": 137, "oom_killed": True}, {"exit_code": 137}, {"output": b"quiet\n"}]
)
def test_what_is_no_refusal_fails(stage: Stage, how: dict) -> None:
    stage.change_server("twin", optional=True)
    refuse(stage, "twin", **how)
    assert stage.supervise() is Status.FAILED
    assert stage.verdicts()[TWIN_C1] == "FAILED server_start_failed"


def test_a_server_that_is_not_optional_fails_with_the_same_words(stage: Stage) -> None:
    refuse(stage, "twin")
    assert stage.supervise() is Status.FAILED
    assert stage.verdicts()[TWIN_C1] == "FAILED server_start_failed"
    assert WORDS in stage.result(TWIN_C1).message


def test_a_stand_in_runs_when_the_first_choice_is_unavailable(stage: Stage) -> None:
    stage.change_server("baseline", optional=True)
    stage.change_server("twin", instead_of="baseline")
    refuse(stage, "baseline")
    assert stage.supervise() is Status.SUCCEEDED
    gone = "UNAVAILABLE server_refused"
    assert stage.verdicts() == {C1: gone, C2: gone, TWIN_C1: GOOD}


def test_a_stand_in_is_not_needed_when_the_first_choice_serves(stage: Stage) -> None:
    stage.change_server("twin", instead_of="baseline")
    assert stage.supervise() is Status.SUCCEEDED
    assert stage.verdicts() == {C1: GOOD, C2: GOOD, TWIN_C1: "UNAVAILABLE not_needed"}
    assert stage.endpoints["twin"].boots == 0
    assert "it serves as the comparator" in stage.result(TWIN_C1).message
    assert stage.timeline[-2] == "server_ended twin#0 UNAVAILABLE not_needed"


def test_a_first_choice_that_fails_is_not_replaced(stage: Stage) -> None:
    stage.change_server("baseline", optional=True)
    stage.change_server("twin", instead_of="baseline")
    refuse(stage, "baseline", exit_code=137, oom_killed=True)
    assert stage.supervise() is Status.FAILED
    failed = "FAILED server_start_failed"
    assert stage.verdicts() == {C1: failed, C2: failed, TWIN_C1: "UNAVAILABLE not_needed"}
    assert "it failed, which is not the same" in stage.result(TWIN_C1).message


def test_a_run_in_which_nothing_can_be_had_failed(stage: Stage) -> None:
    for server in ("baseline", "twin"):
        stage.change_server(server, optional=True)
        refuse(stage, server)
    assert stage.supervise() is Status.FAILED
    assert "0 of 3 cells succeeded, 3 unavailable" in stage.log


def test_an_optional_server_that_starts_without_what_was_asked_for(stage: Stage) -> None:
    assert stage.plan.server("twin").speculative is not None
    more = stage.plan.server("twin").speculative.model_copy(
        update={"enable_adaptive_verification": True}
    )
    stage.change_server("twin", optional=True, speculative=more)
    assert stage.supervise() is Status.SUCCEEDED
    assert stage.verdicts()[TWIN_C1] == "UNAVAILABLE server_refused"
    assert "the server started without it" in stage.result(TWIN_C1).message


def test_effective_settings_must_be_those_of_the_plan(stage: Stage) -> None:
    stage.change_server("twin", expected={"model_config.max_model_len": "7"})
    assert stage.supervise() is Status.FAILED
    assert stage.verdicts()[TWIN_C1] == "FAILED configuration_differs"
    assert "model_config.max_model_len is " in stage.result(TWIN_C1).message


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (REFUSES.decode(), WORDS),
        (
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n"
            "  Value error, Model Runner V1 does not support: adaptive verification "
            "[type=value_error, input_value=ArgsKwargs((), {}), input_type=ArgsKwargs]\n"
            "    For further information visit https://errors.pydantic.dev/2/v/value_error\n",
            "Model Runner V1 does not support: adaptive verification",
        ),
        (
            "usage: vllm\nvllm serve: error: unrecognized arguments: --x\n",
            "unrecognized arguments: --x",
        ),
        ("INFO all is well\n", None),
        ("RuntimeError: Engine core initialization failed. See root cause above.\n", None),
    ],
)
def test_the_servers_own_words(log: str, words: str | None) -> None:
    assert refusal(log) == words


def test_the_words_of_a_real_refusal() -> None:
    """vLLM 0.32.0, a model that claims an MTP head without its weights; asked for `mtp`."""
    words = refusal((VLLM / "mtp_refused.log").read_text())
    assert words is not None
    assert words.startswith("Following weights were not initialized from checkpoint: {'model.mtp_")

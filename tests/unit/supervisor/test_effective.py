"""What a server says it runs, compared with the plan; answers may be anything."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.models.job import Speculative, SpeculativeMethod
from runner.models.plan import ServerPlan
from runner.models.result import Check, Verdict
from runner.models.status import Reason
from runner.supervisor import effective
from tests.fixtures.run_folder import NGRAM, TWIN, server_plan

RECORDED = Path(__file__).parents[2] / "data" / "vllm" / "server_info.json"
BASELINE, DRAFTED = server_plan("baseline"), server_plan("twin", TWIN)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def known(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with the keys that are looked at, and anything as their values."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, JSON))


@pytest.fixture(scope="module")
def info() -> dict[str, Any]:
    """As vLLM 0.32.0 answered with a draft model and k = 3."""
    recorded: dict[str, Any] = json.loads(RECORDED.read_bytes())
    return recorded


def changed(info: dict[str, Any], **values: object) -> dict[str, Any]:
    """The recorded answer with other speculative settings."""
    other = copy.deepcopy(info)
    other["vllm_config"]["speculative_config"].update(values)
    return other


def refused(check: Check) -> str:
    assert (check.verdict, check.reason) == (Verdict.REFUSE, Reason.CONFIGURATION_DIFFERS)
    return check.message


def planned(**values: object) -> ServerPlan:
    return server_plan("twin", TWIN.model_copy(update=values))


# the served name


def test_the_served_name_is_the_one_of_the_plan() -> None:
    models = {"data": [{"id": "other"}, {"id": "tiny"}]}
    check = effective.check_served_name(models, BASELINE)
    assert (check.verdict, check.message) == (Verdict.OK, "serves 'tiny'")


@pytest.mark.parametrize(
    ("models", "offer"),
    [
        ({"data": [{"id": "tiny-2"}]}, "['tiny-2']"),
        ({"data": []}, "nothing"),
        ({"data": None}, "nothing"),
        ({"data": ["tiny"]}, "nothing"),
        ({"data": {"id": "tiny"}}, "nothing"),
        ({}, "nothing"),
        (None, "nothing"),
    ],
)
def test_another_served_name_is_a_foreign_server(models: Any, offer: str) -> None:
    check = effective.check_served_name(models, BASELINE)
    assert (check.verdict, check.reason) == (Verdict.REFUSE, Reason.FOREIGN_SERVER)
    assert check.message == f"expected 'tiny', the server offers {offer}"


# the speculative configuration


def test_the_recorded_configuration_is_the_planned_one(info: dict[str, Any]) -> None:
    check = effective.check_speculation(info, DRAFTED)
    assert check.verdict is Verdict.OK
    assert check.message == (
        "method=draft_model, num_speculative_tokens=3, enable_adaptive_verification=False, "
        "model=/models/tiny"
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"num_speculative_tokens": 2}, "num_speculative_tokens is 3, the plan says 2"),
        ({"model": "/models/other"}, "model is '/models/tiny', the plan says '/models/other'"),
        (
            {"enable_adaptive_verification": True},
            "enable_adaptive_verification is False, the plan says True",
        ),
        (
            {"method": SpeculativeMethod.EAGLE3},
            "method is 'draft_model', the plan says 'eagle3'",
        ),
    ],
)
def test_every_difference_is_told(info: dict[str, Any], value: Any, message: str) -> None:
    assert refused(effective.check_speculation(info, planned(**value))) == message


def test_all_differences_are_told_at_once(info: dict[str, Any]) -> None:
    message = refused(effective.check_speculation(info, server_plan("ngram", NGRAM)))
    assert message == (
        "method is 'draft_model', the plan says 'ngram'; "
        "num_speculative_tokens is 3, the plan says 4; "
        "prompt_lookup_max is 0, the plan says 4; "
        "prompt_lookup_min is 0, the plan says 2"
    )


def test_a_method_without_a_model_is_not_compared_by_model(info: dict[str, Any]) -> None:
    ngram = changed(
        info,
        method="ngram",
        num_speculative_tokens=4,
        model="/models/tiny",
        prompt_lookup_max=4,
        prompt_lookup_min=2,
    )
    check = effective.check_speculation(ngram, server_plan("ngram", NGRAM))
    assert check.verdict is Verdict.OK
    ngram["vllm_config"]["speculative_config"]["prompt_lookup_min"] = 4
    assert refused(effective.check_speculation(ngram, server_plan("ngram", NGRAM))) == (
        "prompt_lookup_min is 4, the plan says 2"
    )


def test_adaptive_verification_that_nobody_asked_for(info: dict[str, Any]) -> None:
    adaptive = changed(info, enable_adaptive_verification=True)
    assert refused(effective.check_speculation(adaptive, DRAFTED)) == (
        "enable_adaptive_verification is True, the plan says False"
    )


def test_an_older_server_has_no_key_for_what_it_can_not_do(info: dict[str, Any]) -> None:
    older = copy.deepcopy(info)
    del older["vllm_config"]["speculative_config"]["enable_adaptive_verification"]
    assert effective.check_speculation(older, DRAFTED).verdict is Verdict.OK
    wanted = planned(enable_adaptive_verification=True)
    assert refused(effective.check_speculation(older, wanted)) == (
        "enable_adaptive_verification is None, the plan says True"
    )


def test_a_baseline_must_not_speculate(info: dict[str, Any]) -> None:
    assert refused(effective.check_speculation(info, BASELINE)) == (
        "speculation is 'on', the plan says 'off'"
    )
    plain = {"vllm_config": {"speculative_config": None}}
    assert effective.check_speculation(plain, BASELINE).verdict is Verdict.OK


def test_a_drafter_that_was_left_out() -> None:
    plain = {"vllm_config": {"speculative_config": None}}
    assert refused(effective.check_speculation(plain, DRAFTED)) == (
        "method is None, the plan says 'draft_model'"
    )


def test_a_server_without_server_info_is_not_compared() -> None:
    check = effective.check_speculation(None, DRAFTED)
    assert check.verdict is Verdict.WARN
    assert check.message == "unavailable: this server has no /server_info; not compared"


def test_synthetic_acceptance_is_refused(info: dict[str, Any]) -> None:
    assert effective.check_synthetic(info).verdict is Verdict.OK
    assert effective.check_synthetic(None).verdict is Verdict.OK
    synthetic = changed(info, rejection_sample_method="synthetic")
    assert refused(effective.check_synthetic(synthetic)) == (
        "the server accepts drafts at a synthetic rate"
    )


# the proof and the counters


def test_a_proof_has_tokens_and_speculative_metrics() -> None:
    answer = {"usage": {"completion_tokens": 16}, "metrics": {"speculative_decoding": {}}}
    assert [check.verdict for check in effective.check_proof(answer, DRAFTED)] == ["ok", "ok"]
    (served,) = effective.check_proof(answer, BASELINE)
    assert (served.message, served.figures) == ("16 tokens generated", {"completion_tokens": 16})


@pytest.mark.parametrize(
    "usage", [{"completion_tokens": 0}, {"completion_tokens": None}, {}, None, [1], "16"]
)
def test_a_proof_without_tokens_is_refused(usage: Any) -> None:
    (served,) = effective.check_proof({"usage": usage}, BASELINE)
    assert (served.verdict, served.reason) == (Verdict.REFUSE, Reason.SERVER_NOT_READY)


@pytest.mark.parametrize("metrics", [None, {}, {"speculative_decoding": None}])
def test_a_proof_without_speculative_metrics_is_a_warning(metrics: Any) -> None:
    answer = {"usage": {"completion_tokens": 1}, "metrics": metrics}
    assert [check.verdict for check in effective.check_proof(answer, DRAFTED)] == ["ok", "warn"]


@pytest.mark.parametrize(
    ("server", "metrics", "message"),
    [
        (DRAFTED, "vllm:prompt_tokens_total 1\n", "expected present, found absent"),
        (BASELINE, "vllm:spec_decode_num_drafts_total 0\n", "expected absent, found present"),
    ],
)
def test_counters_tell_whether_it_speculates(
    server: ServerPlan, metrics: str, message: str
) -> None:
    assert refused(effective.check_counters(metrics, server)) == message


def test_counters_as_planned() -> None:
    assert effective.check_counters("vllm:spec_decode_num_drafts_total 0", DRAFTED).verdict == "ok"
    assert effective.check_counters("", BASELINE).verdict == "ok"


# anything at all


@settings(deadline=None)
@given(
    models=known("data"),
    info=st.none() | st.fixed_dictionaries({"vllm_config": known("speculative_config") | JSON}),
    answer=known("usage", "metrics"),
    speculative=st.sampled_from([None, TWIN, NGRAM]),
)
def test_no_answer_makes_a_check_fail_itself(
    models: Any, info: Any, answer: Any, speculative: Speculative | None
) -> None:
    server = server_plan("any", speculative)
    checks = [
        effective.check_served_name(models, server),
        effective.check_speculation(info, server),
        effective.check_synthetic(info),
        *effective.check_proof(answer, server),
    ]
    assert checks[0].verdict is Verdict.REFUSE
    assert all(check.message for check in checks)

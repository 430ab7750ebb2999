"""What an image does not know is never sent, and always said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner.models.capability import ImageCapabilities
from runner.models.job import MatrixJob
from runner.models.plan import Plan
from runner.plan.build import build_plan
from runner.plan.server_command import expected_configuration

from .conftest import FACTS, HOST, JOB, merged
from .test_evaluation import CAPABLE, DISPENSABLE, NEEDED, OLD, make
from .test_evaluation_plan import plan_of

VLLM = Path(__file__).parents[2] / "data" / "vllm"
IMAGE = "this image (vLLM 0.32.0)"
FIELDS = ("prompt_lookup_min", "prompt_lookup_max", *CAPABLE.speculative_fields)
WHOLE = CAPABLE.model_copy(
    update={"flags": (*CAPABLE.flags, "--enforce-eager"), "speculative_fields": FIELDS}
)


def told(plan: Plan) -> list[tuple[str, str, str]]:
    return [(item.level.value, item.subject, item.message) for item in plan.findings]


def sent(plan: Plan) -> set[str]:
    return {
        word
        for server in plan.servers
        for word in server.container.command
        if word.startswith("--")
    }


def without(*flags: str) -> ImageCapabilities:
    return WHOLE.model_copy(update={"flags": tuple(f for f in WHOLE.flags if f not in flags)})


def test_an_image_that_knows_everything_gives_no_finding(make_inputs: Any) -> None:
    plan = build_plan(make_inputs(capabilities=WHOLE))
    assert plan.findings == ()
    assert sent(plan) == sent(build_plan(make_inputs()))


@pytest.mark.parametrize("flag", DISPENSABLE)
def test_a_flag_that_can_be_done_without_is_left_out(make_inputs: Any, flag: str) -> None:
    plan = build_plan(make_inputs(capabilities=without(flag)))
    written = "--no-enable-prefix-caching" if flag == "--enable-prefix-caching" else flag
    assert told(plan) == [
        ("warning", "image server", f"{IMAGE} does not know {written}; it is not sent")
    ]
    assert written not in sent(plan)
    # a value goes with its flag
    if flag == "--generation-config":
        assert all("vllm" not in server.container.command for server in plan.servers)


def test_flags_that_a_plan_needs_are_one_error(make_inputs: Any) -> None:
    plan = build_plan(make_inputs(capabilities=without("--max-model-len", "--seed")))
    message = f"{IMAGE} does not know --max-model-len, --seed, which every plan here needs"
    assert told(plan) == [("error", "image server", message)]
    assert not sent(plan) & {"--max-model-len", "--seed"}


def test_nothing_that_an_image_does_not_know_is_sent() -> None:
    for flags in ((), ("--dtype",), NEEDED, OLD.flags, CAPABLE.flags):
        image = OLD.model_copy(update={"flags": flags})
        plan = plan_of(make({"adaptive": "off"}, capabilities=image, host=HOST))
        unknown = [flag for flag in sent(plan) if image.knows_flag(flag) is False]
        assert unknown == []


def test_acceptance_for_each_request_only_where_server_and_image_have_it(make_inputs: Any) -> None:
    flag = "--per-request-spec-decode-metrics"
    plan = build_plan(make_inputs(capabilities=without(flag)))
    assert flag not in sent(plan)
    assert {server.per_request_metrics for server in plan.servers} == {False}
    assert [level for level, _, _ in told(plan)] == ["warning", "warning"]
    for capabilities in (None, WHOLE):
        plan = build_plan(make_inputs(capabilities=capabilities))
        assert {s.id: s.per_request_metrics for s in plan.servers} == {
            "baseline": False,
            "ngram": True,
            "draft_model": True,
        }
        for server in plan.servers:
            assert (flag in server.container.command) == server.per_request_metrics


@pytest.mark.parametrize(
    ("argument", "unknown", "hint"),
    [
        ("--async-schedulling", "--async-schedulling", "did you mean --async-scheduling?"),
        ("--no-async-schedulin", "--no-async-schedulin", "did you mean --async-scheduling?"),
        ("--quantum_mode.x=1", "--quantum-mode", "remove it from server.extra_arguments"),
    ],
)
def test_an_unknown_argument_of_the_user(
    make_inputs: Any, argument: str, unknown: str, hint: str
) -> None:
    (finding,) = build_plan(
        make_inputs({"server.extra_arguments": [argument]}, capabilities=WHOLE)
    ).findings
    assert (finding.level.value, finding.subject) == ("error", "server.extra_arguments")
    assert finding.message == f"{IMAGE} does not know {unknown}"
    assert finding.next_step == hint


def test_known_arguments_pass_in_every_spelling(make_inputs: Any) -> None:
    job = {"server.extra_arguments": ["--no-async-scheduling", "--async_scheduling=1", "-O3"]}
    assert build_plan(make_inputs(job, capabilities=WHOLE)).findings == ()


def test_arguments_for_an_image_that_was_not_asked_are_unverified(make_inputs: Any) -> None:
    job = {"server.extra_arguments": ["--block-size", "16"]}
    (finding,) = build_plan(make_inputs(job)).findings
    assert (finding.level.value, finding.next_step) == ("note", "runner images probe --host HOST")
    assert "--block-size" in finding.message
    assert build_plan(make_inputs()).findings == ()


def test_an_image_that_could_not_be_asked_says_why(make_inputs: Any) -> None:
    failed = ImageCapabilities(digest="sha256:b", probed_at="", problem="ImportError: vllm")
    assert told(build_plan(make_inputs(capabilities=failed))) == [
        ("warning", "image server", "it could not be asked whole: ImportError: vllm")
    ]


def test_speculative_keys_are_checked_even_where_flags_are_not_known(make_inputs: Any) -> None:
    image = CAPABLE.model_copy(update={"flags": ()})
    assert told(build_plan(make_inputs(capabilities=image))) == [
        (
            "error",
            "servers.ngram.speculative",
            f"{IMAGE} does not know: prompt_lookup_max, prompt_lookup_min",
        )
    ]


def test_findings_of_an_evaluation_name_its_own_keys() -> None:
    """Every `--set` that is advised has to be one that the user's file takes."""
    inputs = make(
        {
            "draft_tensor_parallel_size": 3,
            "server": {"max_model_len": 256, "extra_arguments": ("--revision=x",)},
        },
        host=HOST,
        facts=FACTS.model_copy(update={"missing_paths": ("/m/draft", "/m/base")}),
        capabilities=CAPABLE.model_copy(update={"flags": (*CAPABLE.flags, "--revision")}),
    )
    plan = plan_of(inputs)
    wrong = [item for item in plan.findings if item.level.value == "error"]
    assert [(item.subject, item.next_step) for item in wrong[:3]] == [
        ("verifier", "put the model there, or --set verifier=/path/on/local"),
        ("drafter", "put the model there, or --set drafter=/path/on/local"),
        ("draft_tensor_parallel_size", "--set draft_tensor_parallel_size=1"),
    ]
    assert {item.next_step for item in wrong if item.subject.startswith("prompts ")} == {
        "--set budget.acceptance.output_tokens=128",
        "--set budget.speedup.output_tokens=128",
    }
    steps = [item.next_step or "" for item in plan.findings]
    assert "remove '--revision' from server.extra_arguments and set verifier_revision" in steps
    assert not [step for step in steps if "servers." in step or "matrix." in step]


def test_a_null_that_somebody_wrote_is_a_decision() -> None:
    given = make({"sampling": {"seed": None}}, host=HOST, origins={"sampling.seed": "job.yaml:9"})
    found = {item.key: (item.value, item.origin.value) for item in plan_of(given).decisions}
    assert found["sampling.seed"] == ("null", "user")
    assert "sampling.thinking" not in found


def test_a_timed_cell_has_to_fit_into_its_limit() -> None:
    budget = {"speedup": {"duration_s": 3000}}
    plan = plan_of(make({"budget": budget, "scope": "speedup"}, host=HOST))
    found = {item.next_step for item in plan.findings if "do not fit" in item.message}
    assert found == {"--set load.cell_timeout_s=3660"}
    budget = {"speedup": {"duration_s": 2900}}
    plan = plan_of(make({"budget": budget, "scope": "speedup"}, host=HOST))
    assert not [item for item in plan.findings if "do not fit" in item.message]


def test_a_dataset_that_is_not_there_is_not_called_small() -> None:
    inputs = make(host=HOST)
    empty = tuple(type(item)(**{**item.__dict__, "rows": ()}) for item in inputs.prompts)
    plan = plan_of(type(inputs)(**{**inputs.__dict__, "prompts": empty}))
    assert not [item for item in plan.findings if "requests at concurrency" in item.message]


def test_expected_settings_are_those_that_a_real_server_reports() -> None:
    """Paths and spellings, against an answer of vLLM 0.32."""
    server = {
        "dtype": "bfloat16",
        "max_model_len": 512,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 2048,
        "prefix_caching": True,
    }
    job = MatrixJob.model_validate(merged(JOB, {f"server.{k}": v for k, v in server.items()}))
    expected = expected_configuration(job)
    reported = json.loads((VLLM / "server_info.json").read_text())["vllm_config"]
    found = {}
    for path in expected:
        value = reported
        for step in path.split("."):
            value = value[step]
        found[path] = value if isinstance(value, str) else json.dumps(value)
    assert found == expected
    auto = MatrixJob.model_validate(merged(JOB, {"server.dtype": "auto"}))
    assert set(expected) - set(expected_configuration(auto)) == {"model_config.dtype"}

"""Command lines and environments of servers and loads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runner.models.host import Role
from runner.models.image import LockedImage
from runner.models.job import MatrixJob, Sampling, Speculative
from runner.models.plan import Plan
from runner.plan.build import build_plan
from runner.plan.load_command import extra_inputs
from runner.plan.server_command import server_arguments, speculative_config


def command(plan: Plan, server: str) -> tuple[str, ...]:
    return plan.server(server).container.command


def environment(plan: Plan, server: str = "baseline") -> dict[str, str]:
    return dict(plan.server(server).container.environment)


def errors(plan: Plan) -> list[tuple[str, str]]:
    return [(item.subject, item.message) for item in plan.findings if item.level.value == "error"]


def test_every_setting_is_passed() -> None:
    job = MatrixJob.model_validate(
        {
            "kind": "matrix",
            "name": "all",
            "model": "org/model",
            "tokenizer": "/opt/tok",
            "revision": "abc123",
            "server": {
                "dtype": "float16",
                "max_model_len": 2048,
                "max_num_seqs": 8,
                "max_num_batched_tokens": 512,
                "tensor_parallel_size": 4,
                "seed": 7,
                "prefix_caching": True,
                "gpu_memory_utilization": 0.85,
                "trust_remote_code": True,
                "extra_arguments": ["--kv-cache-dtype", "fp8"],
            },
            "servers": {"only": {"extra_arguments": ["--no-async-scheduling"]}},
            "prompts": {"p": {"file": "p.jsonl"}},
            "matrix": {"server": ["only"], "prompts": ["p"], "concurrency": [1]},
        }
    )
    assert server_arguments(job, job.servers["only"], "model-1") == (
        "org/model",
        *("--host", "0.0.0.0", "--port", "8000", "--served-model-name", "model-1"),
        *("--dtype", "float16", "--max-model-len", "2048", "--max-num-seqs", "8"),
        *("--max-num-batched-tokens", "512", "--seed", "7", "--tensor-parallel-size", "4"),
        *("--generation-config", "vllm", "--enable-prefix-caching"),
        "--enable-prompt-tokens-details",
        *("--gpu-memory-utilization", "0.85", "--tokenizer", "/opt/tok"),
        *("--revision", "abc123", "--trust-remote-code"),
        *("--kv-cache-dtype", "fp8", "--no-async-scheduling"),
    )


def test_only_speculating_servers_get_speculative_flags(make_inputs: Any) -> None:
    plan = build_plan(make_inputs())
    assert command(plan, "ngram")[-4:] == (
        "--speculative-config",
        '{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4,"prompt_lookup_min":2}',
        "--per-request-spec-decode-metrics",
        "detailed",
    )
    assert not [word for word in command(plan, "baseline") if "spec" in word]
    shared = command(plan, "baseline")[7:]
    assert command(plan, "ngram")[7:-4] == shared


def test_speculative_config_says_switches_only_when_on() -> None:
    spec = Speculative.model_validate(
        {
            "method": "dspark",
            "num_speculative_tokens": 5,
            "model": "/m/d",
            "enable_adaptive_verification": True,
        }
    )
    assert json.loads(speculative_config(spec)) == {
        "method": "dspark",
        "num_speculative_tokens": 5,
        "model": "/m/d",
        "enable_adaptive_verification": True,
    }


@pytest.mark.parametrize(
    ("argument", "flag", "owner"),
    [
        ("--dtype", "--dtype", "server.dtype"),
        ("--max_model_len=99", "--max-model-len", "server.max_model_len"),
        ("--no-enable-prefix-caching", "--enable-prefix-caching", "server.prefix_caching"),
        ("--speculative-config.method", "--speculative-config", "speculative"),
        ("-tp", "-tp", "server.tensor_parallel_size"),
        ("--api-key=s3cret", "--api-key", "environment VLLM_API_KEY"),
        ("--port", "--port", "the plan"),
        ("--max-model", "--max-model-len", "server.max_model_len"),
        ("--no-enable-prefix", "--enable-prefix-caching", "server.prefix_caching"),
    ],
)
def test_extra_argument_that_the_plan_sets(
    make_inputs: Any, argument: str, flag: str, owner: str
) -> None:
    plan = build_plan(make_inputs({"servers.ngram.extra_arguments": [argument]}))
    assert errors(plan) == [
        (
            "servers.ngram.extra_arguments",
            f"'{flag}' repeats a flag that is set from {owner}",
        )
    ]


def test_other_extra_arguments_are_the_users(make_inputs: Any) -> None:
    plan = build_plan(make_inputs({"server.extra_arguments": ["--block-size", "--host.x", "16"]}))
    assert errors(plan) == [
        ("server.extra_arguments", "'--host' repeats a flag that is set from the plan")
    ]
    hidden = build_plan(make_inputs({"server.extra_arguments": ["--config", "/models/a.yaml"]}))
    assert errors(hidden) == [
        ("server.extra_arguments", "'--config' takes flags from a file that the plan does not see")
    ]
    free = build_plan(make_inputs({"server.extra_arguments": ["--block-size", "-1", "dtype"]}))
    assert [(item.level, item.subject) for item in free.findings] == [("note", "extra_arguments")]


@pytest.mark.parametrize("word", ["rejection_sample_method", "synthetic-acceptance-length"])
def test_made_up_acceptance_is_refused(make_inputs: Any, word: str) -> None:
    plan = build_plan(make_inputs({"server.extra_arguments": ["--x", f'{{"{word}":1}}']}))
    assert errors(plan) == [
        (
            "server.extra_arguments",
            "synthetic acceptance says nothing about a model and is not measured here",
        )
    ]


def test_later_environment_beats_earlier(make_inputs: Any) -> None:
    inputs = make_inputs()
    image = inputs.images[Role.SERVER].model_copy(
        update={"environment": {"A": "image", "B": "image", "C": "image", "D": "image"}}
    )
    plan = build_plan(
        make_inputs(
            {
                "server.environment": {"C": "job", "D": "job"},
                "servers.ngram.environment": {"D": "configuration", "DO_NOT_TRACK": "0"},
            },
            host={"environment": {"B": "host", "C": "host", "D": "host"}},
            images={**inputs.images, Role.SERVER: image},
        )
    )
    told = environment(plan, "ngram")
    assert {name: told[name] for name in "ABCD"} == {
        "A": "image",
        "B": "host",
        "C": "job",
        "D": "configuration",
    }
    assert told["DO_NOT_TRACK"] == "0"
    assert environment(plan)["DO_NOT_TRACK"] == "1"
    assert environment(plan)["VLLM_SERVER_DEV_MODE"] == "1"
    assert list(told) == sorted(told)


def test_variable_of_an_image_is_no_secret_whatever_its_name(make_inputs: Any) -> None:
    inputs = make_inputs()
    image = inputs.images[Role.SERVER].model_copy(update={"environment": {"SORT_KEY": "x"}})
    plan = build_plan(make_inputs(images={**inputs.images, Role.SERVER: image}))
    assert environment(plan)["SORT_KEY"] == "x"
    assert plan.secrets == ()


def test_hub_is_off_only_when_all_models_are_folders(make_inputs: Any) -> None:
    hub = "org/drafter"
    plan = build_plan(make_inputs({"servers.draft_model.speculative.model": hub}))
    assert environment(plan, "ngram")["HF_HUB_OFFLINE"] == "1"
    assert "HF_HUB_OFFLINE" not in environment(plan, "draft_model")


def test_load_never_gets_an_offline_switch(make_inputs: Any) -> None:
    inputs = make_inputs()
    image = inputs.images[Role.LOAD].model_copy(
        update={"environment": {"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "1", "KEEP": "me"}}
    )
    plan = build_plan(
        make_inputs(
            host={"environment": {"HF_HUB_OFFLINE": "1"}},
            images={**inputs.images, Role.LOAD: image},
        )
    )
    assert plan.cells[0].container.environment == {"KEEP": "me"}


def test_entrypoints_come_from_the_lock(make_inputs: Any) -> None:
    inputs = make_inputs()
    images: dict[Role, LockedImage] = {
        role: image.model_copy(update={"entrypoint": (f"/{role.value}",)})
        for role, image in inputs.images.items()
    }
    plan = build_plan(make_inputs(images=images))
    assert plan.supervisor.entrypoint == ("/supervisor",)
    assert plan.servers[0].container.entrypoint == ("/server",)
    assert plan.cells[0].container.entrypoint == ("/load",)
    plain = build_plan(inputs)
    assert plain.supervisor.entrypoint is None
    assert plain.servers[0].container.entrypoint == ("vllm", "serve")
    assert plain.cells[0].container.entrypoint == ("aiperf",)


def test_trace_format_holds_a_concurrency(make_inputs: Any) -> None:
    inputs = make_inputs()
    traces = tuple(
        type(item)(**{**item.__dict__, "aiperf_format": "mooncake_trace"})
        for item in inputs.prompts
    )
    words = build_plan(make_inputs(prompts=traces)).cells[0].container.command
    assert words[words.index("--custom-dataset-type") + 1] == "mooncake_trace"
    assert "--no-fixed-schedule" in words
    assert "--no-fixed-schedule" not in build_plan(inputs).cells[0].container.command


def test_request_body_is_the_same_for_every_server(make_inputs: Any) -> None:
    plan = build_plan(
        make_inputs({"sampling.temperature": 0.6, "sampling.ignore_eos": True, "sampling.seed": 1})
    )
    bodies = set()
    for cell in plan.cells:
        words = cell.container.command
        bodies.add((cell.prompts, words[words.index("--extra-inputs") + 1]))
    assert bodies == {
        (
            name,
            f'{{"ignore_eos":true,"max_completion_tokens":{cap},"seed":1,"temperature":0.6,'
            '"top_p":1.0}',
        )
        for name, cap in (("code", 64), ("chat", 32))
    }


def test_no_seed_means_no_key() -> None:
    assert "seed" not in json.loads(extra_inputs(Sampling(seed=None), 8))


def test_fractions_of_a_second_survive(make_inputs: Any) -> None:
    words = build_plan(make_inputs({"load.request_timeout_s": 2.5})).cells[0].container.command
    assert words[words.index("--request-timeout-seconds") + 1] == "2.5"

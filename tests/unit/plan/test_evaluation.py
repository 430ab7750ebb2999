"""Evaluations resolved: servers, cells, roles and where every value came from."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import SpecError
from runner.models.capability import ImageCapabilities
from runner.models.checkpoint import (
    Checkpoint,
    DrafterReading,
    Inferred,
    MtpHead,
    VerifierReading,
)
from runner.models.evaluation import EvaluationJob, Mode
from runner.models.host import Accelerator, Vendor
from runner.models.job import SpeculativeMethod
from runner.models.plan import PlannedRow
from runner.plan.estimate import NO_PACE, Pace
from runner.plan.evaluation import (
    EvaluationInputs,
    Resolution,
    chosen_sets,
    missing,
    resolve,
)
from runner.plan.evaluation_sets import DEFAULT_DATASETS
from runner.plan.inputs import PromptInput

from .conftest import FACTS, HOST

NEEDED = (
    "--dtype",
    "--host",
    "--max-model-len",
    "--max-num-batched-tokens",
    "--max-num-seqs",
    "--port",
    "--seed",
    "--served-model-name",
    "--speculative-config",
    "--tensor-parallel-size",
)
DISPENSABLE = ("--enable-prefix-caching", "--enable-prompt-tokens-details", "--generation-config")
CAPABLE = ImageCapabilities(
    digest="sha256:a",
    probed_at="2026-12-01T00:00:00+00:00",
    vllm_version="0.32.0",
    flags=(*NEEDED, *DISPENSABLE, "--async-scheduling", "--per-request-spec-decode-metrics"),
    methods=("ngram", "eagle3", "mtp", "draft_model", "dspark", "medusa"),
    speculative_fields=(
        "method",
        "model",
        "num_speculative_tokens",
        "enable_adaptive_verification",
        "parallel_drafting",
    ),
    model_runner_v2=True,
)
OLD = CAPABLE.model_copy(
    update={
        "vllm_version": "0.26.0",
        "flags": (*NEEDED, *DISPENSABLE),
        "speculative_fields": ("method", "model", "num_speculative_tokens"),
    }
)
GPU = HOST.model_copy(
    update={"accelerator": Accelerator(vendor=Vendor.NVIDIA, count=1, architecture="sm_90")}
)
NOTES = "config.json: speculators_config"


def checkpoint(name: str) -> Checkpoint:
    return Checkpoint(
        name=name, local=True, revision="sha256:1", revision_source="content", config={}
    )


def drafter(**changes: Any) -> DrafterReading:
    values: dict[str, Any] = {
        "format": "speculators",
        "method": Inferred(value=SpeculativeMethod.EAGLE3, source=f"{NOTES}.method"),
        "verifier": Inferred(value="/m/base", source=f"{NOTES}.verifier"),
        "num_speculative_tokens": Inferred(value=3, source=f"{NOTES}.k"),
    }
    return DrafterReading(**{**values, **changes})


def make(
    job: dict[str, Any] | None = None, *, tokens: int | None = 100, **fields: Any
) -> EvaluationInputs:
    given_job = EvaluationJob.model_validate(
        {
            "kind": "evaluation",
            "name": "e",
            "drafter": "/m/draft",
            "datasets": ("humaneval", "gsm8k"),
            "concurrency": {"speedup": (1, 4)},
            "repeats": 2,
            **(job or {}),
        }
    )
    prompts = tuple(
        PromptInput(
            name=chosen.prompts,
            sha256="1" * 64,
            rows=(PlannedRow(id=f"{chosen.dataset}/1", turns=2, prompt_tokens=tokens),),
            source="package",
            aiperf_format="multi_turn",
            output_tokens=chosen.output_tokens,
            dataset=chosen.dataset,
        )
        for chosen in chosen_sets(given_job)
    )
    values: dict[str, Any] = {
        "job": given_job,
        "origins": {"drafter": "job.yaml:2", "datasets": "job.yaml:3"},
        "host": GPU,
        "facts": FACTS,
        "drafter": checkpoint("/m/draft"),
        "drafter_reading": drafter(),
        "verifier": checkpoint("/m/base"),
        "verifier_reading": VerifierReading(
            model_type="llama", max_position_embeddings=32768, dtype="bfloat16"
        ),
        "prompts": prompts,
        "capabilities": CAPABLE,
    }
    return EvaluationInputs(**{**values, **fields})


def decided(resolution: Resolution) -> dict[str, tuple[str, str, str | None]]:
    return {
        item.key: (item.value, item.origin.value, item.source)
        for item in resolution.evaluation.decisions
    }


def servers(resolution: Resolution) -> list[str]:
    return list(dict.fromkeys(key.server for key in resolution.evaluation.keys))


def errors(resolution: Resolution) -> list[str]:
    return [f.subject for f in resolution.evaluation.findings if f.level.value == "error"]


MTP = VerifierReading(
    model_type="mimo", max_position_embeddings=32768, mtp=MtpHead(depth=2, source="config.json: n")
)


@pytest.mark.parametrize(
    ("job", "fields", "expected", "unavailable"),
    [
        ({}, {}, ["drafter-adaptive_off", "baseline", "drafter-adaptive_on"], []),
        ({"scope": "acceptance"}, {}, ["drafter"], []),
        ({"scope": "speedup", "adaptive": "off"}, {}, ["drafter", "baseline"], []),
        (
            {"draft_length": (3, 5), "adaptive": "off"},
            {},
            ["drafter-k3", "drafter-k5", "baseline"],
            [],
        ),
        (
            {"adaptive": "off"},
            {"verifier_reading": MTP},
            ["drafter", "mtp", "baseline"],
            [],
        ),
        (
            {"adaptive": "off", "comparator": "base"},
            {"verifier_reading": MTP},
            ["drafter", "baseline"],
            [],
        ),
        (
            {"adaptive": "off", "comparator": "mtp"},
            {"verifier_reading": MTP},
            ["drafter", "mtp"],
            [],
        ),
        ({"adaptive": "off", "comparator": "mtp"}, {}, ["drafter"], ["mtp"]),
        ({}, {"capabilities": OLD}, ["drafter-adaptive_off", "baseline"], ["drafter-adaptive_on"]),
        ({}, {"host": HOST}, ["drafter-adaptive_off", "baseline"], ["drafter-adaptive_on"]),
        (
            {"adaptive": "off", "matched_async": True, "method": "medusa", "draft_length": 2},
            {"method": SpeculativeMethod.MEDUSA},
            ["drafter", "baseline-async_off"],
            [],
        ),
    ],
)
def test_servers_of_an_evaluation(
    job: dict, fields: dict, expected: list[str], unavailable: list[str]
) -> None:
    resolution = resolve(make(job, **fields))
    assert servers(resolution) == expected
    assert [item.condition for item in resolution.evaluation.unavailable] == unavailable
    assert list(resolution.job.servers) == expected
    assert set(resolution.evaluation.roles) == set(expected)


def test_acceptance_comes_first_then_matched_sweeps() -> None:
    keys = resolve(make({"adaptive": "off"})).evaluation.keys
    assert [key.id for key in keys] == [
        "drafter-acceptance-humaneval-c8-r1",
        "drafter-acceptance-gsm8k-c8-r1",
        *(
            f"{server}-speedup-{dataset}-c{concurrency}-r{repeat}"
            for server in ("drafter", "baseline")
            for dataset in ("humaneval", "gsm8k")
            for concurrency in (1, 4)
            for repeat in (1, 2)
        ),
    ]
    assert {key.mode for key in keys if "-acceptance-" in key.id} == {"acceptance"}


def test_roles_say_what_is_tried_and_what_stands_in() -> None:
    roles = resolve(make(verifier_reading=MTP)).evaluation.roles
    assert (roles["mtp"].optional, roles["mtp"].instead_of, roles["mtp"].baseline) == (
        True,
        None,
        None,
    )
    assert (roles["baseline"].optional, roles["baseline"].instead_of) == (False, "mtp")
    for name in ("drafter-adaptive_off", "drafter-adaptive_on"):
        assert (roles[name].baseline, roles[name].baseline_fallback) == ("mtp", "baseline")
    assert [roles[name].optional for name in ("drafter-adaptive_off", "drafter-adaptive_on")] == [
        False,
        True,
    ]


def test_every_value_has_its_origin() -> None:
    found = decided(resolve(make()))
    assert found["drafter"] == ("/m/draft", "user", "job.yaml:2")
    assert found["datasets"][1:] == ("user", "job.yaml:3")
    assert found["verifier"] == ("/m/base", "inferred", f"{NOTES}.verifier of /m/draft")
    assert found["method"] == ("eagle3", "inferred", f"{NOTES}.method of /m/draft")
    assert found["draft_length"] == ("[3]", "inferred", f"{NOTES}.k of /m/draft")
    assert found["scope"] == ("full", "default", None)
    assert found["server.dtype"] == ("bfloat16", "inferred", "the verifier's config.json")
    assert found["server.max_num_seqs"] == ("8", "inferred", "the largest concurrency")
    assert found["comparator"][:2] == ("baseline", "inferred")
    assert found["adaptive"][0] == "off, and on is tried"
    assert found["drafter_revision"] == ("sha256:1", "inferred", "content")


def test_defaults_are_those_of_the_mission() -> None:
    job = EvaluationJob.model_validate({"kind": "evaluation", "drafter": "/d"})
    sets = [(chosen.mode, chosen.dataset) for chosen in chosen_sets(job)]
    assert sets == [(mode, name) for mode in Mode for name in DEFAULT_DATASETS[mode]]
    assert DEFAULT_DATASETS[Mode.SPEEDUP] == ("mt-bench", "gsm8k", "humaneval", "math500", "mbpp")
    assert set(DEFAULT_DATASETS[Mode.ACCEPTANCE]) == {
        *DEFAULT_DATASETS[Mode.SPEEDUP],
        "speed-bench-qualitative",
        "mrcr",
    }


def test_a_dataset_named_twice_is_refused() -> None:
    with pytest.raises(SpecError) as caught:
        make({"datasets": ("humaneval", "humaneval")})
    assert caught.value.problems[0].startswith("datasets.acceptance: 'humaneval' is named twice")


@pytest.mark.parametrize(
    ("tokens", "limit", "expected"),
    [(100, 32768, 4096), (9000, 32768, 11264), (9000, 8192, 8192), (None, 32768, 8192)],
)
def test_the_context_is_what_the_longest_conversation_needs(
    tokens: int | None, limit: int, expected: int
) -> None:
    reading = VerifierReading(model_type="llama", max_position_embeddings=limit)
    made = resolve(make({"budget": {"acceptance": {"output_tokens": 1024}}}, tokens=tokens,
                        verifier_reading=reading))  # fmt: skip
    # two turns, so 9000 + 2 x 1024 tokens at most, in steps of 256
    assert made.job.server.max_model_len == expected


def test_what_the_user_set_stays() -> None:
    given_settings = {"dtype": "float32", "max_model_len": 777, "max_num_seqs": 3}
    made = resolve(make({"server": given_settings}))
    assert made.job.server.model_dump(include=set(given_settings)) == given_settings
    assert made.job.server.max_num_batched_tokens == 8192


def test_old_gpus_get_float16() -> None:
    old = HOST.model_copy(
        update={"accelerator": Accelerator(vendor=Vendor.AMD, count=4, architecture="gfx906")}
    )
    assert decided(resolve(make(host=old)))["server.dtype"] == (
        "float16",
        "inferred",
        "gfx906 has no bfloat16",
    )


def test_what_is_missing_is_asked_for_by_name() -> None:
    job = make().job
    bare = DrafterReading(format="unknown", untold={"method": "an unknown architecture"})
    assert [(item.key, item.option, item.why) for item in missing(job, bare)] == [
        ("verifier", "--verifier", "the drafter's configuration names no verifier"),
        ("method", "--method", "an unknown architecture"),
        (
            "draft_length",
            "--draft-length",
            "the drafter's configuration names no number of draft tokens",
        ),
    ]
    assert missing(job, drafter()) == ()


def test_ruled_out_things_that_were_insisted_on_are_errors() -> None:
    assert errors(resolve(make({"adaptive": "on"}, capabilities=OLD))) == ["adaptive"]
    assert errors(resolve(make({"comparator": "mtp"}))) == ["comparator"]
    no_eagle = CAPABLE.model_copy(update={"methods": ("ngram",)})
    assert errors(resolve(make(capabilities=no_eagle))) == ["method"]
    wanted = {"hardware": {"vendor": "amd", "count": 4}}
    assert errors(resolve(make(wanted))) == ["hardware.vendor", "hardware.count"]


def test_the_estimate_counts_and_takes_hours_from_earlier_runs_only() -> None:
    made = resolve(make({"adaptive": "off"})).evaluation.estimate
    assert made is not None
    # 2 acceptance cells and 2 servers x 2 datasets x 2 concurrencies x 2 repeats, 2 turns each
    assert (made.servers, made.cells, made.requests) == (2, 18, 36)
    assert made.output_tokens == 2 * 2 * 1024 + 16 * 2 * 512
    assert (made.hours, made.hours_source) == (None, NO_PACE)
    pace = Pace("1 earlier run", server_ready_s=600, cell_overhead_s=100, tokens_per_s={1: 10.24})
    timed = resolve(make({"adaptive": "off"}, pace=pace)).evaluation.estimate
    assert timed is not None and timed.hours is not None
    seconds = 2 * 600 + 18 * 100 + (2 * 2048 + 16 * 1024) / 10.24
    assert timed.hours == pytest.approx(seconds / 3600)


@settings(max_examples=60, deadline=None)
@given(
    scope=st.sampled_from(["full", "acceptance", "speedup"]),
    adaptive=st.sampled_from(["auto", "on", "off"]),
    comparator=st.sampled_from(["auto", "mtp", "base"]),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True),
    has_mtp=st.booleans(),
    capabilities=st.sampled_from([None, CAPABLE, OLD]),
)
def test_every_condition_is_swept_over_the_same_axes(
    scope: str,
    adaptive: str,
    comparator: str,
    lengths: list[int],
    has_mtp: bool,
    capabilities: ImageCapabilities | None,
) -> None:
    fields: dict[str, Any] = {"verifier_reading": MTP} if has_mtp else {}
    made = resolve(
        make(
            {
                "scope": scope,
                "adaptive": adaptive,
                "comparator": comparator,
                "draft_length": tuple(lengths),
            },
            capabilities=capabilities,
            **fields,
        )
    )
    keys = made.evaluation.keys
    assert len({key.id for key in keys}) == len(keys)
    assert {key.server for key in keys} == set(made.job.servers)
    sweeps: dict[str, set] = {}
    for key in keys:
        if key.mode == "speedup":
            axes = (key.prompts, key.concurrency, key.repeat)
            sweeps.setdefault(key.server, set()).add(axes)
    assert len({frozenset(axes) for axes in sweeps.values()}) <= 1
    # cells of one server are neighbours: it is started once
    order = [key.server for key in keys]
    assert len([a for a, b in pairwise(order) if a != b]) == len(set(order)) - 1

"""The plan as a whole, and the rules that tie its parts together."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from runner.errors import SpecError
from runner.models.host import Role
from runner.models.plan import Finding, Origin, Plan, PlannedRow, for_attempt
from runner.plan.build import WARMUP_PROMPT, build_plan

GOLDEN = Path(__file__).parents[2] / "data" / "plans" / "quickstart.json"
ORIGINS = {
    "model": "jobs/quickstart.yaml:4",
    "server.dtype": "--set server.dtype",
    "matrix.concurrency.0": "jobs/quickstart.yaml:40",
}


def findings(plan: Plan, level: str) -> list[tuple[str, str]]:
    return [(item.subject, item.message) for item in plan.findings if item.level.value == level]


def only(plan: Plan) -> Finding:
    (finding,) = plan.findings
    return finding


def flag(command: tuple[str, ...], name: str) -> str:
    """The value that follows a flag that must be there exactly once."""
    assert command.count(name) == 1
    return command[command.index(name) + 1]


def test_golden_plan(make_inputs: Any) -> None:
    plan = build_plan(make_inputs(origins=ORIGINS, overrides=("server.dtype=float32",)))
    text = json.dumps(plan.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"
    text = text.replace(f'"runner_version": "{plan.runner_version}"', '"runner_version": "0"')
    if os.environ.get("RUNNER_UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text(), "if intended: RUNNER_UPDATE_GOLDEN=1 pytest and look at it"


def test_same_inputs_same_bytes_and_the_plan_reads_back(make_inputs: Any) -> None:
    first = build_plan(make_inputs(origins=ORIGINS)).model_dump_json()
    assert build_plan(make_inputs(origins=ORIGINS)).model_dump_json() == first
    assert Plan.model_validate_json(first).model_dump_json() == first


def test_a_good_job_has_no_findings(make_inputs: Any) -> None:
    assert build_plan(make_inputs()).findings == ()


def test_baseline_runs_first_and_the_rest_keeps_the_order_of_the_matrix(make_inputs: Any) -> None:
    plan = build_plan(make_inputs())
    assert [(server.id, server.baseline) for server in plan.servers] == [
        ("baseline", None),
        ("ngram", "baseline"),
        ("draft_model", "baseline"),
    ]
    assert [cell.id for cell in plan.cells][:5] == [
        "baseline-code-c1-r1",
        "baseline-code-c2-r1",
        "baseline-chat-c1-r1",
        "baseline-chat-c2-r1",
        "ngram-code-c1-r1",
    ]
    assert len(plan.cells) == 12


def test_baseline_is_inferred_from_the_only_plain_server(make_inputs: Any) -> None:
    plan = build_plan(make_inputs({"baseline": None}))
    assert plan.servers[0].id == "baseline"
    decision = next(item for item in plan.decisions if item.key == "baseline")
    assert (decision.value, decision.origin) == ("baseline", Origin.INFERRED)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"matrix.server": ["ngram"]},
            "no cell runs the baseline 'baseline', so no speed-up can be computed",
        ),
        (
            {"baseline": None, "matrix.server": ["ngram"]},
            "every configuration speculates, so no speed-up can be computed",
        ),
        (
            {"baseline": None, "servers.ngram": {}},
            "several configurations do not speculate: ngram, baseline, so no speed-up can be "
            "computed",
        ),
    ],
)
def test_without_a_baseline(make_inputs: Any, change: dict[str, Any], message: str) -> None:
    plan = build_plan(make_inputs(change))
    assert findings(plan, "warning") == [("baseline", message)]
    assert {server.baseline for server in plan.servers} == {None}


def test_requests_count_turns(make_inputs: Any) -> None:
    plan = build_plan(make_inputs())
    cell = plan.cell("ngram-chat-c2-r1")
    assert cell.requests == 5
    assert cell.rows == (PlannedRow(id="chat/a", turns=2), PlannedRow(id="chat/b", turns=3))
    assert flag(cell.container.command, "--request-count") == "5"
    # or AIPerf begins the file anew while a conversation still has a turn to come
    assert flag(cell.container.command, "--num-sessions") == "2"
    assert "--num-sessions" not in plan.cell("ngram-code-c2-r1").container.command


def test_repeats_and_include_become_cells(make_inputs: Any) -> None:
    plan = build_plan(
        make_inputs(
            {
                "repeats": 2,
                "matrix.server": ["baseline"],
                "matrix.prompts": ["code"],
                "matrix.concurrency": [1],
                "matrix.include": [{"server": "ngram", "prompts": "chat", "concurrency": 2}],
            }
        )
    )
    assert [cell.id for cell in plan.cells] == [
        "baseline-code-c1-r1",
        "baseline-code-c1-r2",
        "ngram-chat-c2-r1",
        "ngram-chat-c2-r2",
    ]
    assert [prompts.name for prompts in plan.prompts] == ["code", "chat"]


def test_include_of_a_server_that_nobody_described(make_inputs: Any) -> None:
    include = [{"server": "eagle9", "prompts": "code", "concurrency": 2}]
    with pytest.raises(SpecError) as caught:
        build_plan(make_inputs({"matrix.include": include}))
    assert caught.value.problems == (
        "matrix.include: server 'eagle9' is not one of: ngram, draft_model, baseline",
    )


def test_only_prompts_that_are_used_are_planned(make_inputs: Any) -> None:
    plan = build_plan(make_inputs({"matrix.prompts": ["chat"]}))
    assert [(item.name, item.rows, item.sha256[0]) for item in plan.prompts] == [("chat", 2, "2")]


def test_served_name_has_a_nonce_of_run_and_server(make_inputs: Any) -> None:
    plan = build_plan(make_inputs())
    names = [server.served_name for server in plan.servers]
    assert len(set(names)) == 3
    assert all(name.startswith("tiny-") and len(name) == len("tiny-") + 8 for name in names)
    other = build_plan(make_inputs(run_id="20261201T101501Z-quickstart-0000"))
    assert not set(names) & {server.served_name for server in other.servers}
    for server in plan.servers:
        assert flag(server.container.command, "--served-model-name") == server.served_name
        for cell in plan.cells_of(server.id):
            assert flag(cell.container.command, "--model") == server.served_name
            assert flag(cell.container.command, "--url") == f"http://server-{server.id}:8000"
        assert server.container.network_aliases == (f"server-{server.id}",)


def test_warm_up_uses_our_own_words(make_inputs: Any) -> None:
    plan = build_plan(make_inputs({"load.warmup_requests": 3}))
    assert {(s.warmup.requests, s.warmup.prompt) for s in plan.servers} == {(3, WARMUP_PROMPT)}


def test_attempt_is_filled_into_name_label_and_export_folder(make_inputs: Any) -> None:
    plan = build_plan(make_inputs())
    load = for_attempt(plan.cell("ngram-code-c1-r1").container, 2)
    run_dir = "/var/lib/runner/runs/quickstart/20261201T101500Z-quickstart-3f9a"
    assert plan.run_dir == run_dir
    assert load.name == "runner-20261201T101500Z-quickstart-3f9a-load-ngram-code-c1-r1-a2"
    assert load.labels["dev.runner.attempt"] == "2"
    assert load.mounts[-1].source == f"{run_dir}/cells/ngram-code-c1-r1/attempt-2/load/aiperf"
    assert "{attempt}" not in load.model_dump_json()
    server = for_attempt(plan.server("ngram").container, 2)
    assert server.name == "runner-20261201T101500Z-quickstart-3f9a-ngram-a2"


def test_every_container_carries_the_run(make_inputs: Any) -> None:
    plan = build_plan(make_inputs())
    specs = [plan.supervisor]
    specs += [server.container for server in plan.servers]
    specs += [cell.container for cell in plan.cells]
    assert {spec.labels["dev.runner.run"] for spec in specs} == {plan.run_id}
    assert {spec.labels["dev.runner.job"] for spec in specs} == {"quickstart"}
    assert {spec.labels["dev.runner.run-dir"] for spec in specs} == {plan.run_dir}
    assert {spec.labels["dev.runner"] for spec in specs} == {"1"}
    roles = [spec.labels["dev.runner.role"] for spec in specs]
    assert roles == ["supervisor"] + ["server"] * 3 + ["load"] * 12
    assert specs[-1].labels["dev.runner.cell"] == "draft_model-chat-c2-r1"
    assert specs[-1].labels["dev.runner.server"] == "draft_model"
    assert len({spec.name for spec in specs}) == len(specs)


def test_images_are_used_by_digest(make_inputs: Any) -> None:
    plan = build_plan(make_inputs())
    assert plan.supervisor.image == "sha256:" + "c" * 64
    assert plan.servers[0].container.image == "sha256:" + "a" * 64
    assert plan.cells[0].container.image == "sha256:" + "b" * 64
    assert list(plan.images) == ["server", "load", "supervisor"]


def test_image_without_a_lock_still_gives_a_plan_to_look_at(make_inputs: Any) -> None:
    inputs = make_inputs()
    images = {role: image for role, image in inputs.images.items() if role is not Role.SERVER}
    plan = build_plan(make_inputs(images=images))
    assert findings(plan, "error") == [
        ("image server", "image 'server-image' is not built on 'local'")
    ]
    assert only(plan).next_step == "runner images build server-image --host local"
    assert plan.servers[0].container.image == "server-image:not-built"


def test_no_engine_is_one_error_and_says_nothing_about_images(make_inputs: Any) -> None:
    facts = {"engine": None, "engine_error": "no such socket", "images": {}}
    assert findings(build_plan(make_inputs(facts=facts)), "error") == [
        ("engine", "no container engine answers on 'local': no such socket")
    ]


@pytest.mark.parametrize(
    ("change", "level", "subject", "message"),
    [
        (
            {"matrix.concurrency": [1, 32], "prompts.chat.output_tokens": 32},
            "warning",
            "concurrency",
            "concurrency 32 exceeds server.max_num_seqs 16: requests queue, and the report says so",
        ),
        (
            {"matrix.concurrency": [3]},
            "warning",
            "prompts chat",
            "5 requests at concurrency 3: fewer than 2 for each slot, so start and end weigh more "
            "than load",
        ),
        (
            {"server.max_model_len": 64},
            "error",
            "prompts code",
            "output_tokens 64 leave no room for a prompt within server.max_model_len 64",
        ),
        (
            {"server.prefix_caching": True},
            "warning",
            "server.prefix_caching",
            "prefix caching is on: cells that share prompts on one server get faster from one to "
            "the next",
        ),
        (
            {"server.max_num_batched_tokens": 16, "server.max_num_seqs": 17},
            "error",
            "server.max_num_batched_tokens",
            "16 is less than server.max_num_seqs 17; vLLM refuses that",
        ),
        (
            {"server.cpu_kv_cache_gib": None},
            "warning",
            "server.cpu_kv_cache_gib",
            "not set: vLLM then takes a share of all memory and fails when it is not free",
        ),
        (
            {"model": "org/tiny"},
            "error",
            "tokenizer",
            "'org/tiny' is not a folder on the host, and 'local' has no cache that server and load "
            "generator share",
        ),
        (
            {"tokenizer": "org/tiny"},
            "error",
            "tokenizer",
            "'org/tiny' is not a folder on the host, and 'local' has no cache that server and load "
            "generator share",
        ),
        (
            {"servers.ngram.speculative.draft_tensor_parallel_size": 2},
            "error",
            "servers.ngram.speculative.draft_tensor_parallel_size",
            "2 is neither 1 nor server.tensor_parallel_size 1",
        ),
    ],
)
def test_findings_about_a_job(
    make_inputs: Any, change: dict[str, Any], level: str, subject: str, message: str
) -> None:
    assert (subject, message) in findings(build_plan(make_inputs(change)), level)


def test_relative_model_path(make_inputs: Any) -> None:
    plan = build_plan(make_inputs({"model": "./tiny", "tokenizer": "/opt/models/tiny"}))
    assert only(plan).message == (
        "'./tiny' is neither an absolute path on the host nor a name on a hub"
    )


def test_model_that_is_not_on_the_host(make_inputs: Any) -> None:
    facts = {"missing_paths": ("/opt/models/tiny", "/somewhere/else")}
    assert findings(build_plan(make_inputs(facts=facts)), "error") == [
        ("model", "/opt/models/tiny does not exist on 'local'"),
        ("servers.draft_model.speculative.model", "/opt/models/tiny does not exist on 'local'"),
    ]


def test_name_that_is_too_long_for_a_host_name(make_inputs: Any) -> None:
    name = "n" * 57
    change = {f"servers.{name}": {}, "matrix.server": [name, "baseline"]}
    ((subject, message),) = findings(build_plan(make_inputs(change)), "error")
    assert subject == f"servers.{name}"
    assert message == f"'server-{name}' is too long for a host name; 63 characters at most"


def test_decisions_tell_who_decided(make_inputs: Any) -> None:
    plan = build_plan(make_inputs(origins=ORIGINS))
    decisions = {item.key: item for item in plan.decisions}
    assert len(decisions) == len(plan.decisions)

    def told(key: str) -> tuple[str, str, str | None]:
        return (decisions[key].value, decisions[key].origin.value, decisions[key].source)

    assert told("model") == ("/opt/models/tiny", "user", "jobs/quickstart.yaml:4")
    assert told("server.dtype") == ("float32", "user", "--set server.dtype")
    assert told("matrix.concurrency") == ("[1,2]", "user", "jobs/quickstart.yaml:40")
    assert told("server.seed") == ("0", "default", None)
    assert told("tokenizer") == ("/opt/models/tiny", "inferred", "the model's own folder")
    assert told("cpus.server") == ("0", "inferred", "fact cpu_list '0-1' of local")
    assert told("cpus.load") == ("1", "inferred", "fact cpu_list '0-1' of local")
    assert told("images.load") == ("sha256:" + "b" * 64, "inferred", "the lock: load-image")
    assert decisions["servers.ngram.served_name"].value == plan.server("ngram").served_name


PLANTED = "hf_plantedplantedplanted"


def test_a_planted_token_is_nowhere_in_the_plan(make_inputs: Any) -> None:
    plan = build_plan(
        make_inputs(
            {
                "server.environment": {"HF_TOKEN": PLANTED, "OMP_NUM_THREADS": "4"},
                "servers.ngram.environment": {"PROXY": f"${{PROXY_OF_{PLANTED}}}"},
            },
            host={"environment": {"WANDB_API_KEY": PLANTED}},
            origins={"server.environment.HF_TOKEN": "--set server.environment.HF_TOKEN"},
            overrides=(
                f"server.environment.HF_TOKEN={PLANTED}",
                f"servers.ngram.environment={{HF_TOKEN: {PLANTED}}}",
                "server.seed=3",
            ),
            secrets=("EXTRA",),
        )
    )
    assert PLANTED not in plan.model_dump_json()
    assert plan.secrets == ("EXTRA", "HF_TOKEN", "PROXY", "WANDB_API_KEY")
    assert plan.supervisor.secret_environment == plan.secrets
    baseline = plan.server("baseline").container
    assert baseline.secret_environment == ("EXTRA", "HF_TOKEN", "WANDB_API_KEY")
    assert baseline.environment["OMP_NUM_THREADS"] == "4"
    assert plan.cells[0].container.secret_environment == ()
    assert plan.overrides == (
        "server.environment.HF_TOKEN=***",
        "servers.ngram.environment=***",
        "server.seed=3",
    )
    hidden = next(d for d in plan.decisions if d.key == "server.environment.HF_TOKEN")
    assert (hidden.value, hidden.source) == ("***", "--set server.environment.HF_TOKEN")


def test_one_secret_can_not_have_two_values(make_inputs: Any) -> None:
    change = {
        "servers.ngram.environment": {"HF_TOKEN": "${A}"},
        "servers.baseline.environment": {"HF_TOKEN": "${B}"},
    }
    assert findings(build_plan(make_inputs(change)), "error") == [
        (
            "servers.ngram.environment.HF_TOKEN",
            "secret 'HF_TOKEN' has another value in another configuration",
        )
    ]

"""Evaluations planned: order, roles and modes reach the plan, and no unknown flag a server."""

from __future__ import annotations

from typing import Any

from runner.plan.build import build_plan
from runner.plan.evaluation import EvaluationInputs, resolve
from runner.plan.inputs import PlanInputs

from .conftest import HOST, IMAGES
from .test_evaluation import MTP, OLD, make


def plan_of(inputs: EvaluationInputs) -> Any:
    made = resolve(inputs)
    return build_plan(
        PlanInputs(
            job=made.job,
            prompts=inputs.prompts,
            host=inputs.host,
            facts=inputs.facts,
            run_id="20261201T101500Z-e-3f9a",
            created_at="2026-12-01T10:15:00+00:00",
            origins=inputs.origins,
            images=IMAGES,
            capabilities=inputs.capabilities,
            evaluation=made.evaluation,
        )
    )


def test_the_plan_keeps_order_roles_and_modes() -> None:
    plan = plan_of(make(verifier_reading=MTP, host=HOST))
    assert plan.kind == "evaluation"
    assert [server.id for server in plan.servers] == ["drafter-adaptive_off", "mtp", "baseline"]
    by_id = {server.id: server for server in plan.servers}
    assert by_id["baseline"].instead_of == "mtp"
    assert by_id["mtp"].optional
    assert [by_id[name].per_request_metrics for name in by_id] == [True, True, False]
    assert by_id["drafter-adaptive_off"].expected["scheduler_config.max_num_seqs"] == "8"
    assert {cell.mode for cell in plan.cells} == {"acceptance", "speedup"}
    assert {cell.dataset for cell in plan.cells} == {"humaneval", "gsm8k"}
    assert plan.checkpoints["verifier"].name == "/m/base"


def test_no_flag_is_sent_that_the_image_does_not_know() -> None:
    bare = OLD.model_copy(update={"flags": ("--dtype",)})
    plan = plan_of(make({"adaptive": "off"}, capabilities=bare, host=HOST))
    for server in plan.servers:
        command = " ".join(server.container.command)
        assert "--per-request-spec-decode-metrics" not in command
        assert "prefix-caching" not in command
        assert "--enable-prompt-tokens-details" not in command
        assert not server.per_request_metrics
    told = [finding.message for finding in plan.findings]
    assert any("does not know --enable-prompt-tokens-details" in text for text in told)
    assert any("reports no acceptance for each request" in text for text in told)


def test_fixed_length_thinking_and_duration_reach_the_load() -> None:
    budget = {"speedup": {"rows": 4, "output_tokens": 32, "end": "fixed", "duration_s": 60}}
    plan = plan_of(
        make({"budget": budget, "sampling": {"thinking": False}, "adaptive": "off"}, host=HOST)
    )
    cell = next(cell for cell in plan.cells if cell.mode == "speedup")
    command = " ".join(cell.container.command)
    assert (cell.ignore_eos, cell.duration_s) == (True, 60)
    assert '"ignore_eos":true' in command
    assert '"chat_template_kwargs":{"enable_thinking":false}' in command
    assert "--benchmark-duration 60 --benchmark-grace-period 600" in command
    assert "--request-count 2" in command
    other = next(cell for cell in plan.cells if cell.mode == "acceptance")
    assert (other.ignore_eos, other.duration_s) == (False, None)
    assert "--benchmark-duration" not in other.container.command

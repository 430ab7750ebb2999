"""Whole evaluations of tiny drafters with the real vLLM and AIPerf, on real prompts."""

from __future__ import annotations

import json

import pytest

from tests.e2e.evaluating import DATASETS, evaluate, settings

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="session")
def datasets(world) -> str:
    """HumanEval and MT-Bench, fetched as a user fetches them."""
    folder = str(world.root / "datasets")
    world.environment["RUNNER_DATASETS"] = folder
    world.runner("datasets", "fetch", *DATASETS.split(","))
    return folder


@pytest.fixture(scope="session")
def trained(world, quickstart, datasets):
    """The full evaluation of a trained EAGLE3 head, by its path alone."""
    models = world.root / "models"
    target = str(models / "eagle3")
    verifier = str(models / "tiny")
    world.runner("models", "eagle3", "--host", "local", "--verifier", verifier, "--target", target)
    return evaluate(world, "--drafter", target, "--datasets", DATASETS, *settings())


@pytest.fixture(scope="session")
def untrained(world, quickstart, datasets):
    """Acceptance of a head with random weights."""
    models = world.root / "models"
    target = str(models / "eagle3-untrained")
    verifier = str(models / "tiny")
    world.runner(
        *("models", "eagle3", "--host", "local", "--untrained"),
        *("--verifier", verifier, "--target", target),
    )
    return evaluate(
        world,
        *("--drafter", target, "--datasets", "humaneval", "--scope", "acceptance"),
        *settings(),
    )


@pytest.fixture(scope="session")
def with_mtp(world, quickstart, datasets):
    """A draft model on a verifier whose configuration names an MTP head that it does not have."""
    target = str(world.root / "models" / "mtp")
    world.runner("models", "tiny", "--host", "local", "--target", target, "--size", "mtp")
    return evaluate(
        world,
        *("--drafter", target, "--verifier", target, "--method", "draft_model"),
        *("--draft-length", "3", "--datasets", "humaneval", "--scope", "speedup"),
        *settings(),
    )


def decisions(plan: dict) -> dict[str, tuple[str, str, str | None]]:
    return {d["key"]: (d["value"], d["origin"], d["source"]) for d in plan["decisions"]}


def test_everything_was_inferred_from_the_drafter(world, trained):
    assert trained.exit_code == 0, trained.stderr[-3000:]
    found = decisions(trained.plan)
    value, origin, source = found["verifier"]
    assert (value, origin) == (str(world.root / "models" / "tiny"), "inferred")
    assert "config.json: speculators_config.verifier.name_or_path" in source
    assert found["method"][:2] == ("eagle3", "inferred")
    value, origin, source = found["draft_length"]
    assert (json.loads(value), origin) == ([3], "inferred")
    assert "speculative_tokens" in source
    assert found["drafter"][1:] == ("user", "--drafter")
    assert found["scope"][1] == "default"


def test_a_trained_head_is_accepted(trained):
    cells = [c for c in trained.summary["cells"] if c["mode"] == "acceptance"]
    assert {c["dataset"] for c in cells} == {"humaneval", "mt-bench"}
    for cell in cells:
        assert 2.0 < cell["figures"]["acceptance_length"]["value"] < 4.0, cell["cell"]


def test_an_untrained_head_is_never_accepted(untrained):
    assert untrained.exit_code == 0, untrained.stderr[-3000:]
    (cell,) = untrained.summary["cells"]
    assert cell["figures"]["acceptance_length"]["value"] == 1.0
    assert cell["figures"]["draft_acceptance_rate"]["value"] == 0.0
    assert {server["id"] for server in untrained.plan["servers"]} == {"drafter-adaptive_off"} or {
        server["id"] for server in untrained.plan["servers"]
    } == {"drafter"}


def test_speed_up_comes_from_matched_pairs_only(trained):
    cells = [c for c in trained.summary["cells"] if c["mode"] == "speedup"]
    assert {c["server"] for c in cells} == {"drafter-adaptive_off", "baseline"}
    for cell in cells:
        if cell["server"] != "baseline":
            assert cell["figures"]["throughput_ratio"]["value"] > 0, cell


def test_adaptive_verification_is_unavailable_and_says_why(trained):
    (missing,) = trained.plan["unavailable"]
    assert missing["condition"] == "drafter-adaptive_on"
    assert "model runner" in missing["reason"]
    assert "drafter-adaptive_on" in trained.readme
    assert missing["reason"] in trained.readme


def test_two_turn_conversations_are_counted_right(trained):
    cell = next(c for c in trained.plan["cells"] if c["id"].startswith("baseline-speedup-mt-bench"))
    assert len(cell["rows"]) == 6
    assert {row["turns"] for row in cell["rows"]} == {2}
    assert cell["requests"] == 12
    counts = trained.results()[cell["id"]]["counts"]
    assert (counts["planned"], counts["recorded"], counts["good"]) == (12, 12, 12)


def test_prompts_are_the_real_ones(trained):
    files = {item["name"]: item for item in trained.plan["prompts"]}
    human = files["acceptance-humaneval"]
    assert (human["dataset"], human["dataset_rows"], human["rows"]) == ("humaneval", 164, 6)
    assert "6 of 164 rows" in human["selection"]
    text = trained.folder / "inputs" / "prompts" / "acceptance-humaneval.jsonl"
    if not text.exists():
        (text,) = trained.folder.rglob("acceptance-humaneval.jsonl")
    assert "def " in text.read_text()
    tokens = [row["prompt_tokens"] for cell in trained.plan["cells"] for row in cell["rows"]]
    assert all(count and count > 10 for count in tokens)


def test_counted_prompt_tokens_are_what_the_server_counts(trained):
    cell = next(c for c in trained.plan["cells"] if "acceptance-humaneval" in c["id"])
    planned = {row["id"]: row["prompt_tokens"] for row in cell["rows"]}
    (records,) = (trained.folder / "cells" / cell["id"]).rglob("profile_export.jsonl")
    served = {}
    for line in records.read_text().splitlines():
        record = json.loads(line)
        served[record["metadata"]["conversation_id"]] = record["metrics"]["input_sequence_length"][
            "value"
        ]
    assert served == planned


def test_mtp_that_refuses_is_unavailable_and_its_stand_in_runs(with_mtp):
    assert with_mtp.exit_code == 0, with_mtp.stderr[-3000:]
    servers = {server["id"]: server for server in with_mtp.plan["servers"]}
    assert servers["mtp"]["optional"]
    assert servers["baseline"]["instead_of"] == "mtp"
    results = with_mtp.results()
    refused = [result for cell, result in results.items() if cell.startswith("mtp-")]
    assert {result["status"] for result in refused} == {"UNAVAILABLE"}
    assert all(result["message"].startswith("unavailable: ") for result in refused)
    log = b"".join(
        path.read_bytes() for path in with_mtp.folder.glob("servers/mtp/attempt-*/output.log")
    )
    words = refused[0]["message"].removeprefix("unavailable: ")
    assert words.encode()[:40] in log or any(
        part.strip().encode() in log for part in words.split("; ") if len(part) > 20
    )
    assert {r["status"] for c, r in results.items() if c.startswith("baseline-")} == {"SUCCEEDED"}
    drafter = [c for c in with_mtp.summary["cells"] if c["server"].startswith("drafter")]
    for cell in drafter:  # the verifier drafts for itself
        assert cell["figures"]["acceptance_length"]["value"] == 4.0
        assert cell["figures"]["throughput_ratio"]["value"] > 0

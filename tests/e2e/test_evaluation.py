"""Whole evaluations of tiny drafters with the real vLLM and AIPerf, on real prompts."""

from __future__ import annotations

import json
import re

import pytest

from tests.e2e.evaluating import Evaluated, evaluate, settings
from tests.e2e.world import OLD, World, blocks
from tests.fixtures.browser import Browser

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="session")
def datasets(world: World) -> None:
    """Where fetched datasets go."""
    world.environment["RUNNER_DATASETS"] = str(world.root / "datasets")


@pytest.fixture(scope="session")
def trained(world: World, quickstart, jobs, datasets) -> Evaluated:
    """The README's evaluation of a trained EAGLE3 head, its commands as they are written."""
    ((_, fetch, plan, submit, *_),) = blocks("README.md", "Evaluate a drafter")
    world.wait_for("eagle3")
    for line in (fetch, plan):
        world.runner(*line.split()[1:])
    assert submit == "runner submit jobs/tiny-evaluation.yaml --host local --follow"
    return evaluate(world, "jobs/tiny-evaluation.yaml")


@pytest.fixture(scope="session")
def untrained(world: World, quickstart, trained) -> Evaluated:
    """Acceptance of a head with random weights, named by its path alone."""
    models = str(world.root / "models")
    target = f"{models}/untrained"
    world.runner(
        *("models", "eagle3", "--host", "local", "--untrained"),
        *("--verifier", f"{models}/tiny", "--target", target),
    )
    return evaluate(
        world,
        *("--drafter", target, "--datasets", "humaneval", "--scope", "acceptance"),
        *settings(),
    )


@pytest.fixture(scope="session")
def with_mtp(world: World, quickstart, trained) -> Evaluated:
    """A draft model for a verifier whose configuration claims an MTP head."""
    models = str(world.root / "models")
    world.runner(
        *("models", "mtp", "--host", "local", "--from", f"{models}/tiny"),
        *("--target", f"{models}/mtp"),
    )
    return evaluate(
        world,
        *("--drafter", f"{models}/tiny", "--verifier", f"{models}/mtp", "--draft-length", "3"),
        *("--datasets", "humaneval", "--scope", "speedup"),
        *settings(),
    )


@pytest.fixture(scope="session")
def on_old_image(world: World, quickstart, trained) -> Evaluated:
    """A draft model on an older vLLM; the host `old` names that image by its reference."""
    models = str(world.root / "models")
    build = ("images", "build", "vllm-cpu", "--host", "old", "--build-arg", f"VLLM_VERSION={OLD}")
    world.wait_for("old-image")
    world.runner(*build, timeout=1200)
    world.runner("images", "build", "aiperf", "supervisor", "--host", "old", timeout=900)
    world.runner("images", "build", "--host", "old", timeout=900)
    return evaluate(
        world,
        *("--drafter", f"{models}/tiny", "--verifier", f"{models}/tiny", "--draft-length", "3"),
        *("--datasets", "humaneval", "--scope", "acceptance"),
        *settings(),
        host="old",
    )


def test_everything_was_inferred_from_the_drafter(world: World, trained: Evaluated) -> None:
    assert trained.exit_code == 0, trained.stderr[-3000:]
    found = trained.decisions()
    value, origin, source = found["verifier"]
    assert (value, origin) == (str(world.root / "models" / "tiny"), "inferred")
    assert source is not None
    assert source.startswith("config.json: speculators_config.verifier.name_or_path of ")
    assert found["method"][:2] == ("eagle3", "inferred")
    assert found["draft_length"][:2] == ("[3]", "inferred")
    assert found["drafter"][1] == "user"
    assert found["scope"][:2] == ("full", "default")
    for checkpoint in trained.plan["checkpoints"].values():
        assert checkpoint["revision"].startswith("sha256:")


def test_a_trained_head_is_accepted(trained: Evaluated) -> None:
    pooled = {
        item["prompts"]: item["figures"]["acceptance_length"]["value"]
        for item in trained.summary["pooled"]
        if item["prompts"].startswith("acceptance-")
    }
    assert set(pooled) == {"acceptance-humaneval", "acceptance-mt-bench"}
    cells = [c for c in trained.summary["cells"] if c["mode"] == "acceptance"]
    accepted = sum(c["figures"]["accepted_tokens"]["value"] for c in cells)
    steps = sum(c["figures"]["drafted_steps"]["value"] for c in cells)
    assert 1 + accepted / steps > 2.0, pooled


def test_an_untrained_head_is_never_accepted(untrained: Evaluated) -> None:
    assert untrained.exit_code == 0, untrained.stderr[-3000:]
    (cell,) = untrained.summary["cells"]
    assert cell["figures"]["acceptance_length"]["value"] == 1.0
    assert cell["figures"]["draft_acceptance_rate"]["value"] == 0.0
    assert [server["id"] for server in untrained.plan["servers"]] == ["drafter"]
    assert untrained.decisions()["drafter"][1:] == ("user", "--drafter")


def test_speed_up_comes_from_matched_pairs(trained: Evaluated) -> None:
    cells = {c["server"]: c for c in trained.summary["cells"] if c["mode"] == "speedup"}
    assert set(cells) == {"drafter-adaptive_off", "baseline"}
    assert cells["drafter-adaptive_off"]["figures"]["throughput_ratio"]["value"] > 0
    assert [item["not_comparable"] for item in trained.summary["differences"]] == [None]


def test_the_answers_are_those_of_the_verifier(trained: Evaluated) -> None:
    (check,) = trained.summary["lossless"]
    # 8 conversations of two turns; float32 on one machine: near-ties are rare
    assert check["compared"] == 16
    assert check["verdict"] in ("ok", "warn"), check["message"]
    cell = f"cells/{trained.cell('drafter-adaptive_off-speedup-mt-bench')}/attempt-1/load/aiperf"
    outputs = json.loads((trained.folder / cell / "outputs.json").read_text())
    assert sum(bool(one["response_text"]) for one in outputs["data"]) == 16


def test_a_report_of_a_real_run(trained: Evaluated, browser: Browser) -> None:
    """The page of a real run has no errors, and every link of it and of the README resolves."""
    report = trained.folder / "report"
    browser.open(report / "page.html")
    assert browser.problems() == []
    targets = set(re.findall(r"\]\(([^)#]+)\)", trained.readme))
    targets |= set(re.findall(r'href="([^"#:]+)"', (report / "page.html").read_text()))
    for target in targets - {"data"}:
        assert (report / target).exists(), target
    room = {server: one["tokens"] for server, one in trained.summary["kv_cache"].items()}
    # the memory is as large as it was asked to be, and a drafter's layer takes some of it
    assert 0 < room["drafter-adaptive_off"] < room["baseline"]
    (comparison,) = trained.summary["speedup"]
    (load,) = comparison["equal_concurrency"]
    assert load["throughput_ratio"]["interval"]["method"] == "bootstrap over 8 rows"
    categories = {one["category"] for one in trained.summary["categories"]}
    assert len(categories) > 1, "MT-Bench has categories"


def test_adaptive_verification_is_unavailable_and_says_why(trained: Evaluated) -> None:
    (missing,) = trained.plan["unavailable"]
    assert missing["condition"] == "drafter-adaptive_on"
    assert "second model runner" in missing["reason"]
    told = trained.readme.split("## Conditions that did not run")[1]
    assert r"drafter-adaptive\_on" in told.split("\n## ")[0]


def test_two_turn_conversations_are_counted_right(trained: Evaluated) -> None:
    (cell,) = [c for c in trained.plan["cells"] if c["id"].startswith("baseline-speedup-mt-bench")]
    assert {row["turns"] for row in cell["rows"]} == {2}
    assert (len(cell["rows"]), cell["requests"]) == (8, 16)
    counts = trained.results()[cell["id"]]["counts"]
    assert (counts["planned"], counts["recorded"], counts["good"]) == (16, 16, 16)
    seen = sorted(
        (record["metadata"]["conversation_id"], record["metadata"]["turn_index"])
        for record in trained.records(cell["id"])
    )
    assert seen == sorted((row["id"], turn) for row in cell["rows"] for turn in (0, 1))


def test_prompts_are_the_real_ones_counted_as_the_server_counts(trained: Evaluated) -> None:
    files = {item["name"]: item for item in trained.plan["prompts"]}
    human = files["acceptance-humaneval"]
    assert (human["dataset"], human["dataset_rows"], human["rows"]) == ("humaneval", 164, 8)
    assert human["selection"] == "8 of 164 rows, seed 42"
    (cell,) = [c for c in trained.plan["cells"] if "acceptance-humaneval" in c["id"]]
    planned = {row["id"]: row["prompt_tokens"] for row in cell["rows"]}
    served = {
        record["metadata"]["conversation_id"]: record["metrics"]["input_sequence_length"]["value"]
        for record in trained.records(cell["id"])
    }
    assert served == planned


def test_mtp_that_refuses_is_unavailable_and_its_stand_in_runs(with_mtp: Evaluated) -> None:
    assert with_mtp.exit_code == 0, with_mtp.stderr[-3000:]
    servers = {server["id"]: server for server in with_mtp.plan["servers"]}
    assert servers["mtp"]["optional"]
    assert servers["baseline"]["instead_of"] == "mtp"
    results = {cell.split("-speedup-")[0]: result for cell, result in with_mtp.results().items()}
    assert results["mtp"]["status"] == "UNAVAILABLE"
    words = results["mtp"]["message"].removeprefix("unavailable: ")
    assert words.startswith("Following weights were not initialized from checkpoint")
    log = (with_mtp.folder / "servers" / "mtp" / "attempt-1" / "output.log").read_text()
    assert words[:300] in log
    assert results["baseline"]["status"] == "SUCCEEDED"
    (cell,) = [c for c in with_mtp.summary["cells"] if c["server"].startswith("drafter")]
    # the verifier has the drafter's weights: every draft is what it would say itself
    assert cell["figures"]["acceptance_length"]["value"] == 4.0
    assert cell["figures"]["throughput_ratio"]["value"] > 0
    told = with_mtp.readme.split("## Conditions that did not run")[1].split("\n## ")[0]
    assert "the server itself" in told


def test_an_older_image_gets_no_flag_that_it_does_not_know(on_old_image: Evaluated) -> None:
    assert on_old_image.exit_code == 0, on_old_image.stderr[-3000:]
    (server,) = on_old_image.plan["servers"]
    assert not server["per_request_metrics"]
    assert "--per-request-spec-decode-metrics" not in server["container"]["command"]
    host = json.loads((on_old_image.folder / "host.json").read_text())
    (capabilities,) = host["capabilities"].values()
    assert capabilities["vllm_version"].startswith(OLD)
    assert "enable_adaptive_verification" not in capabilities["speculative_fields"]


def test_its_acceptance_comes_from_the_counters_and_says_so(on_old_image: Evaluated) -> None:
    (pooled,) = on_old_image.summary["pooled"]
    assert pooled["source"] == "server counters"
    length = pooled["figures"]["acceptance_length"]
    assert length["value"] == 4.0  # the same checkpoint drafts
    assert "from the server's counters" in length["statistic"]
    assert "from the server's counters" in on_old_image.readme


def test_a_plan_by_name_alone_says_where_everything_comes_from(
    world: World, trained: Evaluated
) -> None:
    target = str(world.root / "models" / "tiny-eagle3")
    before = world.docker("ps", "-aq")
    done = world.runner(
        *("plan", "--drafter", target, "--datasets", "humaneval", "--host", "local"), *settings()
    )
    assert world.docker("ps", "-aq") == before
    assert "speculators_config.verifier.na" in done.stdout
    assert "unavailable: drafter-adaptive_on" in done.stdout
    assert "estimate: 2 server starts, 3 cells, 18 requests" in done.stdout
    assert "in the store" in done.stdout

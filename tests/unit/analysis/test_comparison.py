"""Two runs side by side: unlike ones are refused, and what fell is found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.analysis.comparison import compare_runs, unlike
from runner.analysis.measured import measure_run
from runner.client.report import compare_stored
from runner.errors import ArtifactError
from runner.models.status import Status
from tests.fixtures.run_folder import NGRAM, RunFolder, cell_plan, exports_of


def run_of(root: Path, change: Callable[[dict[str, Any]], None] | None = None) -> Path:
    """A baseline and n-gram at concurrency 4; records of both changed in place."""
    run = RunFolder(root)
    run.server("baseline")
    run.server("ngram", NGRAM)
    for server, name in (("baseline", "coalesced_base_c4"), ("ngram", "coalesced_ngram_c4")):
        exports = exports_of(name)
        if change is not None:
            shutil.copytree(exports, root.parent / f"{root.name}-{name}")
            exports = root.parent / f"{root.name}-{name}"
            path = exports / "profile_export.jsonl"
            records = [json.loads(line) for line in path.read_text().splitlines()]
            for record in records:
                change(record)
            path.write_text("".join(json.dumps(record) + "\n" for record in records))
        run.record(run.plan(cell_plan(server, "code", 4, exports)), exports)
    return run.write(Status.SUCCEEDED)


def twice_as_long(record: dict[str, Any]) -> None:
    """Everything takes twice the time, from the same first start on."""
    metadata = record["metadata"]
    start, end = metadata["request_start_ns"], metadata["request_end_ns"]
    metadata["request_start_ns"] = FIRST_NS + 2 * (start - FIRST_NS)
    metadata["request_end_ns"] = FIRST_NS + 2 * (end - FIRST_NS)
    metadata["credit_issued_ns"] = metadata["request_start_ns"]
    for name in ("request_latency", "time_to_first_token"):
        record["metrics"][name]["value"] *= 2


def fewer_accepted(record: dict[str, Any]) -> None:
    """Every step that accepted four drafts accepted three, and one step more made up for it."""
    spec = record.get("spec_decode_acceptance")
    if spec is None:
        return
    histogram = {int(key): count for key, count in spec["acceptance_histogram"].items()}
    moved = histogram.pop(4, 0)
    histogram[3] = histogram.get(3, 0) + moved
    spec["acceptance_histogram"] = {str(key): count for key, count in histogram.items()}
    spec["num_accepted_draft_tokens"] -= moved
    spec["per_step_accepted"] = [min(count, 3) for count in spec["per_step_accepted"]]


FIRST_NS = min(
    json.loads(line)["metadata"]["request_start_ns"]
    for line in (exports_of("coalesced_base_c4") / "profile_export.jsonl").read_text().splitlines()
)


def test_equal_runs_have_ratio_one_and_no_regression(tmp_path: Path) -> None:
    first, second = (measure_run(run_of(tmp_path / name)) for name in ("a", "b"))
    assert unlike(first, second) == ()
    found = compare_runs(first, second, limit=0.0)
    assert {(one.configuration, one.metric) for one in found.changes} == {
        ("ngram", "acceptance_length"),
        ("baseline", "output_token_throughput"),
        ("ngram", "output_token_throughput"),
    }, "streams in lumps have no interactivity"
    assert {one.ratio.value for one in found.changes} == {1.0}
    assert found.regressions == found.only_before == found.only_after == ()


def test_half_the_throughput_is_a_regression(tmp_path: Path) -> None:
    first = measure_run(run_of(tmp_path / "a"))
    second = measure_run(run_of(tmp_path / "b", twice_as_long))
    found = compare_runs(first, second)
    fell = {(one.configuration, one.metric): one for one in found.regressions}
    assert fell.keys() == {
        ("baseline", "output_token_throughput"),
        ("ngram", "output_token_throughput"),
    }
    change = fell["ngram", "output_token_throughput"]
    # same tokens, twice the window: half the throughput in every resample as well
    assert change.ratio.value == pytest.approx(0.5)
    assert change.ratio.interval is not None
    assert change.ratio.interval.low == pytest.approx(0.5)
    assert change.ratio.interval.high == pytest.approx(0.5)
    assert compare_runs(first, second, limit=0.6).regressions == ()


def test_the_other_way_round_nothing_fell(tmp_path: Path) -> None:
    first = measure_run(run_of(tmp_path / "a", twice_as_long))
    second = measure_run(run_of(tmp_path / "b"))
    assert compare_runs(first, second).regressions == ()


def test_lower_acceptance_is_found(tmp_path: Path) -> None:
    first = measure_run(run_of(tmp_path / "a"))
    second = measure_run(run_of(tmp_path / "b", fewer_accepted))
    (change,) = compare_runs(first, second).regressions
    assert change.metric == "acceptance_length"
    # recorded: 705 drafted steps, 1398 accepted
    assert change.before == pytest.approx(1 + 1398 / 705)
    assert change.after < change.before


def test_what_differs_is_named_and_refused(tmp_path: Path) -> None:
    first, second = run_of(tmp_path / "a"), run_of(tmp_path / "b")
    plan = json.loads((second / "plan.json").read_text())
    plan["prompts"][0]["sha256"] = "cd" * 32
    plan["sampling"]["temperature"] = 0.7
    (second / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(ArtifactError) as refused:
        compare_stored(first, second, limit=0.05)
    assert "differ in more than the drafter" in str(refused.value)
    assert f"prompts.code: {'ab' * 32} against {'cd' * 32}" in str(refused.value)
    assert "--allow prompts.code --allow sampling" in str(refused.value)
    with pytest.raises(ArtifactError, match=r"sampling"):
        compare_stored(first, second, limit=0.05, allowed=["prompts.code"])
    found = compare_stored(first, second, limit=0.05, allowed=["prompts.code", "sampling"])
    assert [one.key for one in found.allowed] == ["prompts.code", "sampling"]
    with pytest.raises(ArtifactError, match=r"nothing differs in host"):
        compare_stored(first, second, limit=0.05, allowed=["host"])


def test_another_drafter_is_what_it_is_for(tmp_path: Path) -> None:
    first, second = run_of(tmp_path / "a"), run_of(tmp_path / "b")
    for root, revision in ((first, "old"), (second, "new")):
        plan = json.loads((root / "plan.json").read_text())
        plan["checkpoints"] = {
            "drafter": {"name": "d", "revision": revision, "revision_source": "a test"},
            "verifier": {"name": "v", "revision": "same", "revision_source": "a test"},
        }
        (root / "plan.json").write_text(json.dumps(plan))
    assert compare_stored(first, second, limit=0.05).changes


def test_runs_with_nothing_in_common(tmp_path: Path) -> None:
    first = run_of(tmp_path / "a")
    other = RunFolder(tmp_path / "b")
    other.server("baseline")
    exports = exports_of("pinned_base_c1")
    other.record(other.plan(cell_plan("baseline", "chat", 1, exports)), exports)
    second = other.write(Status.SUCCEEDED)
    with pytest.raises(ArtifactError, match=r"no figure in common"):
        compare_stored(first, second, limit=0.05)
    found = compare_runs(measure_run(first), measure_run(second))
    assert found.only_before == ("baseline on code at 4", "ngram on code at 4")
    assert found.only_after == ("baseline on chat at 1",)


def test_a_setting_that_a_server_chose_by_itself_is_named(tmp_path: Path) -> None:
    recorded = next((Path(__file__).parents[2] / "data" / "vllm").glob("**/server_info.json"))
    roots = []
    for name, seqs in (("a", 4), ("b", 8)):
        root = run_of(tmp_path / name)
        info = json.loads(recorded.read_text())
        info["vllm_config"]["scheduler_config"]["max_num_seqs"] = seqs
        # memory that was left at one start, and another drafter: neither matters
        info["vllm_config"]["cache_config"]["num_gpu_blocks"] += seqs
        info["vllm_config"]["speculative_config"]["model"] = f"/models/{name}"
        for server in ("baseline", "ngram"):
            folder = root / "servers" / server / "attempt-1"
            folder.mkdir(parents=True)
            (folder / "server_info.json").write_text(json.dumps(info))
        roots.append(root)
    found = unlike(*map(measure_run, roots))
    assert [(one.key, one.before, one.after) for one in found] == [
        ("settings.baseline.scheduler_config.max_num_seqs", "4", "8"),
        ("settings.ngram.scheduler_config.max_num_seqs", "4", "8"),
    ]

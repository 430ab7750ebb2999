"""What differs between a baseline and a drafter, from the answers of three real servers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from runner.analysis.differences import (
    BY_PLAN,
    WHY,
    Difference,
    differences,
    planned_settings,
    server_differences,
)
from runner.analysis.measured import measure_run
from runner.analysis.settings import ABSENT, SPECULATION, effective_settings, logged_settings
from runner.models.layout import RunLayout
from tests.fixtures.run_folder import NGRAM, RunFolder, cell_plan, exports_of, server_plan

VLLM = Path(__file__).parents[2] / "data" / "vllm"


def told(name: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((VLLM / f"server_info_{name}.json").read_bytes())
    return answer


def between(name: str) -> list[tuple[str, str, str]]:
    found = differences(effective_settings(told("baseline")), effective_settings(told(name)))
    assert {one.why for one in found} == {WHY[one.setting] for one in found}
    return [(one.setting, one.baseline, one.other) for one in found]


def test_ngram_against_its_baseline() -> None:
    assert between("ngram") == [
        (SPECULATION, "off", "method ngram, num_speculative_tokens 4, model ngram"),
        ("observability_config.per_request_spec_decode_metrics", "none", "detailed"),
        ("parallel_config.disable_nccl_for_dp_synchronization", "true", "false"),
        ("scheduler_config.max_num_scheduled_tokens", "null", "2048"),
    ]


def test_a_drafter_takes_memory_of_the_cache() -> None:
    assert between("draft") == [
        (SPECULATION, "off", "method draft_model, num_speculative_tokens 3, model /models/tiny"),
        ("cache_config.kv_cache_max_concurrency", "256.0", "128.0"),
        ("cache_config.kv_cache_size_tokens", "262144", "131072"),
        ("cache_config.num_gpu_blocks", "2048", "1024"),
        ("observability_config.per_request_spec_decode_metrics", "none", "detailed"),
        ("scheduler_config.max_num_scheduled_tokens", "null", "2048"),
    ]


def test_a_server_does_not_differ_from_itself_by_its_name() -> None:
    again = told("baseline")
    again["vllm_config"]["instance_id"] = "other"
    again["vllm_config"]["model_config"]["served_model_name"] = "tiny-other"
    again["vllm_config"]["parallel_config"]["data_parallel_rpc_port"] = 1
    assert differences(effective_settings(told("baseline")), effective_settings(again)) == ()


def test_what_speculation_does_not_explain_comes_right_after_the_drafter() -> None:
    other = told("ngram")
    other["vllm_config"]["scheduler_config"]["max_num_seqs"] = 4
    del other["vllm_config"]["cache_config"]["block_size"]
    found = differences(effective_settings(told("baseline")), effective_settings(other))
    assert found[0].setting == SPECULATION
    assert found[1:3] == (
        Difference("cache_config.block_size", "128", ABSENT, None),
        Difference("scheduler_config.max_num_seqs", "8", "4", None),
    )
    assert all(one.why for one in found[3:])


def test_long_values_are_cut_after_they_were_compared() -> None:
    (found,) = differences({"a": "x" * 200 + "1"}, {"a": "x" * 200 + "2"})
    assert found.baseline == found.other == "x" * 120 + "…"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["Model Runner V2 requires Triton; using the V1 model runner instead."], "V1"),
        (["Using V2 Model Runner", "Application startup complete."], "V2"),
        (["Application startup complete.", "Using V2 Model Runner"], None),
    ],
)
def test_model_runner_is_read_from_the_log_of_the_start(
    lines: list[str], expected: str | None
) -> None:
    assert logged_settings(lines).get("model runner") == expected


def test_attention_backends_are_read_from_the_log() -> None:
    line = "Using {} attention backend out of potential backends: ['FLASH_ATTN', 'TRITON_ATTN']."
    lines = [line.format("FLASH_ATTN"), line.format("TRITON_ATTN"), line.format("FLASH_ATTN")]
    assert logged_settings(lines) == {
        "attention backend": "FLASH_ATTN",
        "attention backend of the drafter": "TRITON_ATTN",
    }


def test_own_arguments_and_environment_come_from_the_plan() -> None:
    base, ngram = server_plan("baseline"), server_plan("ngram", NGRAM)
    assert planned_settings(ngram, base) == ({}, {})
    container = ngram.container.model_copy(
        update={
            "command": (*ngram.container.command, "--no-async-scheduling"),
            "environment": {"OMP_NUM_THREADS": "1"},
        }
    )
    ours, theirs = planned_settings(ngram.model_copy(update={"container": container}), base)
    assert differences(theirs, ours) == (
        Difference("arguments", ABSENT, "--no-async-scheduling", BY_PLAN),
        Difference("environment OMP_NUM_THREADS", ABSENT, "1", BY_PLAN),
    )


def pair(tmp_path: Path) -> Path:
    """A run of two cells on code, n-gram and its baseline."""
    run = RunFolder(tmp_path / "run")
    run.server("baseline")
    run.server("ngram", NGRAM)
    for name, folder in (("baseline", "coalesced_base_c4"), ("ngram", "coalesced_ngram_c4")):
        exports = exports_of(folder)
        run.record(run.plan(cell_plan(name, "code", 4, exports)), exports)
    return run.write()


def keep(root: Path, name: str, log: str) -> None:
    layout = RunLayout(root).server(name, 1)
    Path(layout.root).mkdir(parents=True)
    shutil.copy(VLLM / f"server_info_{name}.json", layout.server_info)
    Path(layout.log).write_text(log)


def test_stored_servers_of_a_run(tmp_path: Path) -> None:
    root = pair(tmp_path)
    keep(root, "baseline", "Using V2 Model Runner\n")
    keep(
        root, "ngram", "Model Runner V2 does not yet support x; using the V1 model runner instead."
    )
    (found,) = server_differences(measure_run(root))
    assert (found.configuration, found.baseline, found.not_compared) == ("ngram", "baseline", ())
    assert found.paths == ("servers/baseline/attempt-1", "servers/ngram/attempt-1")
    settings = {one.setting: (one.baseline, one.other) for one in found.differences}
    assert settings["model runner"] == ("V2", "V1")
    assert settings["scheduler_config.max_num_scheduled_tokens"] == ("null", "2048")
    assert len(settings) == 5


def test_a_server_that_told_nothing_is_named(tmp_path: Path) -> None:
    root = pair(tmp_path)
    keep(root, "baseline", "Using V2 Model Runner\n")
    (found,) = server_differences(measure_run(root))
    assert found.not_compared == ("ngram",)
    assert found.differences == ()
    assert found.paths == ("servers/baseline/attempt-1",)


def test_no_pair_in_the_figures_no_comparison(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.server("baseline")
    run.server("ngram", NGRAM)
    exports = exports_of("coalesced_ngram_c4")
    run.record(run.plan(cell_plan("ngram", "code", 4, exports)), exports)
    assert server_differences(measure_run(run.write())) == ()

"""A pair is compared only when its servers differ in nothing but the drafter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.analysis.conclusions import conclude
from runner.analysis.differences import (
    BY_PLAN,
    Difference,
    ServerDifferences,
    differences,
    server_differences,
)
from runner.analysis.measured import MeasuredRun, measure_run
from runner.analysis.pairing import throughput_ratios
from runner.analysis.settings import ABSENT, effective_settings
from runner.models.plan import ServerPlan
from runner.models.status import Status
from runner.report.contents import build_document
from runner.report.markdown import render_markdown
from runner.report.summary import build_summary
from tests.fixtures.run_folder import NGRAM, RunFolder, cell_plan

from .test_differences import VLLM, exports_of, keep, pair, told

CELL = "ngram-code-c4-r1"


def change(root: Path, name: str, path: str, value: object) -> None:
    """Another effective setting of a stored server."""
    file = root / "servers" / name / "attempt-1" / "server_info.json"
    info = json.loads(file.read_bytes())
    at: Any = info["vllm_config"]
    *steps, last = path.split(".")
    for step in steps:
        at = at[step]
    at[last] = value
    file.write_text(json.dumps(info))


def readme(run: MeasuredRun) -> str:
    return render_markdown(build_document(conclude(run), plots=frozenset(), files=()), "..")


@pytest.fixture
def matched(tmp_path: Path) -> Path:
    root = pair(tmp_path)
    for name in ("baseline", "ngram"):
        keep(root, name, "Using V2 Model Runner\n")
    return root


def test_a_matched_pair_has_a_ratio(matched: Path) -> None:
    run = measure_run(matched)
    (found,) = server_differences(run)
    assert found.not_comparable is None
    assert throughput_ratios(run)[CELL].value == pytest.approx(1.9, abs=1.2)


def test_a_baseline_with_one_other_flag_is_caught(matched: Path) -> None:
    change(matched, "baseline", "scheduler_config.max_num_seqs", 64)
    run = measure_run(matched)
    words = "not comparable: scheduler_config.max_num_seqs is 8 against 64"
    ratio = throughput_ratios(run)[CELL]
    assert (ratio.value, ratio.unavailable) == (None, words)
    summary = build_summary(conclude(run))
    assert summary["differences"][0]["not_comparable"] == words
    cell = next(item for item in summary["cells"] if item["id"] == CELL)
    assert cell["figures"]["throughput_ratio"]["unavailable"] == words
    page = readme(run)
    assert "not comparable" in page
    assert "throughput ratios are below" not in page


def test_three_settings_are_named_and_the_rest_counted() -> None:
    found = ServerDifferences(
        "ngram", "baseline", tuple(Difference(f"s{i}", "1", "2", None) for i in range(5)), (), ()
    )
    assert found.not_comparable == (
        "not comparable: s0 is 2 against 1; s1 is 2 against 1; s2 is 2 against 1 and 2 more"
    )


@pytest.mark.parametrize(
    ("difference", "comparable"),
    [
        (Difference("arguments", "--no-async-scheduling", ABSENT, BY_PLAN), True),
        (Difference("arguments", ABSENT, "--no-async-scheduling", BY_PLAN), True),
        (Difference("arguments", ABSENT, "--stream-interval 4", BY_PLAN), False),
        (Difference("environment OMP_NUM_THREADS", ABSENT, "1", BY_PLAN), False),
        (Difference("environment VLLM_USE_V2_MODEL_RUNNER", "0", ABSENT, BY_PLAN), True),
        (Difference("attention backend", "FLASH_ATTN", "TRITON_ATTN", None), False),
        (Difference("model runner", "V2", "V1", "vLLM chooses it by method"), True),
    ],
)
def test_what_a_job_may_set_on_one_side(difference: Difference, comparable: bool) -> None:
    found = ServerDifferences("a", "b", (difference,), (), ())
    assert (found.not_comparable is None) is comparable


def leaves(value: Any, path: str = "") -> list[str]:
    if isinstance(value, dict) and value:
        return [leaf for key, below in value.items() for leaf in leaves(below, f"{path}.{key}")]
    return [path.removeprefix(".")]


SETTINGS = sorted(
    set(effective_settings(told("baseline"))) & set(leaves(told("baseline")["vllm_config"]))
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(path=st.sampled_from(SETTINGS))
def test_any_other_setting_that_differs_takes_the_ratio_away(path: str) -> None:
    base = effective_settings(told("baseline"))
    other = {**effective_settings(told("ngram")), path: "something else"}
    found = differences(base, other)
    one = next(item for item in found if item.setting == path)
    whole = ServerDifferences("ngram", "baseline", found, (), ())
    assert (whole.not_comparable is None) == (one.why is not None)


def test_a_stand_in_is_the_baseline_where_the_first_choice_is_unavailable(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.server("mtp")
    run.server("baseline")
    run.server("ngram", NGRAM)
    for name, folder in (("baseline", "coalesced_base_c4"), ("ngram", "coalesced_ngram_c4")):
        exports = exports_of(folder)
        run.record(run.plan(cell_plan(name, "code", 4, exports)), exports)
    run.unavailable(run.plan(cell_plan("mtp", "code", 4, exports)), "unavailable: no such head")
    compared = {"baseline": "mtp", "baseline_fallback": "baseline"}
    run.change_server("ngram", **compared)
    found = measure_run(run.write(Status.SUCCEEDED))
    server: ServerPlan = found.plan.server("ngram")
    assert found.baseline_of(server) == "baseline"
    assert throughput_ratios(found)[CELL].value is not None
    assert [one.cell.id for one in found.unavailable] == ["mtp-code-c4-r1"]
    assert found.left_out == ()
    assert build_summary(conclude(found))["unavailable"] == [
        {"condition": "mtp", "cell": "mtp-code-c4-r1", "reason": "unavailable: no such head"}
    ]
    page = readme(found)
    told_why = page.split("## Conditions that did not run")[1]
    assert "no such head" in told_why
    assert "2 of 3 cells succeeded and are in the figures; 1 unavailable" in page
    assert VLLM.is_dir()

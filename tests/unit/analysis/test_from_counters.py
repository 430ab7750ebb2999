"""Acceptance where an image reports none for each request: the server's counters."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from runner.analysis.conclusions import conclude
from runner.analysis.counters import CounterPool, counted
from runner.analysis.measured import measure_run
from runner.analysis.measurements import FROM_COUNTERS, NOT_COUNTED
from runner.analysis.pooling import pool_acceptance
from runner.models.layout import RunLayout
from runner.models.status import Status
from runner.report.summary import build_summary
from tests.fixtures.run_folder import NGRAM, RunFolder, cell_plan, counters_text, exports_of

BEFORE = counters_text(10, 40, 20, tokens=16)
AFTER = counters_text(715, 2780, 1418, tokens=2576)


def positions(values: tuple[int, ...]) -> str:
    name = "vllm:spec_decode_num_accepted_tokens_per_pos"
    lines = [f"# TYPE {name}_total counter"]
    lines += [
        f'{name}_total{{engine="0",position="{i}"}} {value:.1f}' for i, value in enumerate(values)
    ]
    return "\n".join(lines) + "\n"


def old_image(tmp_path: Path, before: str | None, after: str | None) -> RunFolder:
    """A run whose requests carry no acceptance figures, as those of an older vLLM."""
    exports = tmp_path / "exports"
    shutil.copytree(exports_of("coalesced_ngram_c4"), exports)
    path = exports / "profile_export.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        record.pop("spec_decode_acceptance")
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    run = RunFolder(tmp_path / "run")
    run.server("ngram", NGRAM)
    container = run.servers["ngram"].container
    command = tuple(w for w in container.command if "per-request" not in w and w != "detailed")
    run.change_server(
        "ngram",
        per_request_metrics=False,
        container=container.model_copy(update={"command": command}),
    )
    cell = run.plan(cell_plan("ngram", "code", 4, exports))
    layout = RunLayout(run.root).attempt(cell.id, 1)
    run.record(cell, exports, metrics=(before, after))
    for text, file in ((before, layout.metrics_before), (after, layout.metrics_after)):
        if text is not None:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).write_text(text)
    return run


def test_the_growth_of_the_counters() -> None:
    # 705 drafts, 2740 drafted, 1398 accepted; at the four positions 500, 400, 300, 198
    before, after = BEFORE + positions((5, 5, 5, 5)), AFTER + positions((505, 405, 305, 203))
    pool = counted(before, after)
    assert pool is not None
    assert (pool.drafts, pool.drafted, pool.accepted) == (705, 2740, 1398)
    assert dict(pool.positions) == {0: 500, 1: 400, 2: 300, 3: 198}
    whole = pool.acceptance(measured_nothing())
    assert whole.length == pytest.approx(1 + 1398 / 705)
    assert whole.rate == pytest.approx(1398 / 2740)
    assert whole.positions == pytest.approx((500 / 705, 400 / 705, 300 / 705, 198 / 705))
    assert whole.conditional == pytest.approx((500 / 705, 0.8, 0.75, 0.66))
    assert (whole.k, whole.coverage, whole.tokens_per_step) == (4, None, None)


def measured_nothing():
    from runner.analysis.acceptance import AcceptancePool

    return AcceptancePool()


def test_engines_are_summed_and_a_restart_is_no_figure() -> None:
    more = counters_text(100, 400, 50, engine="1")
    both = counted(BEFORE + positions((0,)), AFTER + more + positions((9,)))
    assert both is not None
    assert both.drafts == 805
    assert counted(AFTER + positions((9,)), BEFORE + positions((9,))) is None
    assert counted("", "") is None


def test_a_cell_of_an_older_image_has_its_figures_from_the_counters(tmp_path: Path) -> None:
    after = AFTER + positions((500, 400, 300, 198))
    run = old_image(tmp_path, BEFORE + positions((0, 0, 0, 0)), after)
    found = measure_run(run.write(Status.SUCCEEDED))
    (attempt,) = found.included
    assert attempt.status is Status.SUCCEEDED
    length = attempt.figure("acceptance_length")
    assert length is not None
    assert length.value == pytest.approx(1 + 1398 / 705)
    assert length.statistic.endswith(FROM_COUNTERS)
    coverage = attempt.figure("drafting_coverage")
    assert coverage is not None
    assert (coverage.value, coverage.unavailable) == (None, NOT_COUNTED)
    warned = {check.name: check.message for check in attempt.warnings}
    assert "acceptance comes from the server's counters" in warned["per_request_metrics"]
    (pooled,) = pool_acceptance(found.attempts)
    assert pooled.from_counters
    assert pooled.acceptance.length == length.value
    assert build_summary(conclude(found))["pooled"][0]["source"] == "server counters"


def test_without_any_source_the_cell_is_refused(tmp_path: Path) -> None:
    run = old_image(tmp_path, None, None)
    found = measure_run(run.write(Status.FAILED))
    assert found.included == ()
    (attempt,) = found.left_out
    assert attempt.reason == "drafter_did_not_run"


def test_pools_add_up_in_any_order() -> None:
    first, second = CounterPool(1, 4, 2), CounterPool(3, 12, 5)
    both, other = CounterPool(), CounterPool()
    both.merge(first)
    both.merge(second)
    other.merge(second)
    other.merge(first)
    assert both == other == CounterPool(4, 16, 7)

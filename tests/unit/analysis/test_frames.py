"""A run folder as frames: every attempt a row, nothing failed in a figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.analysis.conclusions import conclude
from runner.analysis.frames import build_frames
from runner.analysis.measured import measure_run
from runner.analysis.pairing import throughput_ratios
from runner.analysis.pooling import pool_acceptance
from runner.errors import ArtifactError
from runner.models.status import Reason, Status
from tests.fixtures.run_folder import NGRAM, RunFolder, cell_plan, exports_of


def test_every_attempt_is_a_row(demo_run: Path) -> None:
    cells = build_frames(conclude(measure_run(demo_run))).cells.set_index(["cell", "attempt"])
    assert cells["status"].to_dict() == {
        ("baseline-chat-c1-r1", 1): "SUCCEEDED",
        ("baseline-chat-c4-r1", 1): "SUCCEEDED",
        ("ngram-chat-c1-r1", 1): "FAILED",
        ("ngram-chat-c4-r1", 1): "FAILED",
        ("baseline-code-c2-r1", 0): "PENDING",
        ("baseline-code-c4-r1", 1): "SUCCEEDED",
        ("ngram-code-c2-r1", 1): "FAILED",
        ("ngram-code-c2-r1", 2): "SUCCEEDED",
        ("ngram-code-c4-r1", 1): "SUCCEEDED",
        ("twin-code-c4-r1", 1): "SUCCEEDED",
    }
    failed = cells.loc[("ngram-chat-c1-r1", 1)]
    assert failed["reason"] == "request_errors"
    assert failed["message"] == "6 of 12 failed: 500 Internal Server Error (limit 0 %)"
    assert (failed["planned"], failed["good"], failed["errors"]) == (12, 6, 6)
    assert failed["path"] == "cells/ngram-chat-c1-r1/attempt-1"
    assert not failed["included"]


def test_failed_cells_are_in_no_figure(demo_run: Path) -> None:
    frames = build_frames(conclude(measure_run(demo_run)))
    refused = {"ngram-chat-c1-r1", "ngram-chat-c4-r1", "baseline-code-c2-r1"}
    assert refused.isdisjoint(frames.speed["cell"])
    assert refused.isdisjoint(frames.acceptance["cell"])
    assert set(frames.acceptance_pooled["prompts"]) == {"code"}


def test_ratio_of_a_pair_and_of_none(demo_run: Path) -> None:
    ratios = throughput_ratios(measure_run(demo_run))
    # 2560 tokens in 2.558108659 s against 2560 tokens in 4.603859717 s
    assert ratios["ngram-code-c4-r1"].value == pytest.approx(4.603859717 / 2.558108659)
    assert ratios["ngram-code-c2-r1"].value is None
    assert ratios["ngram-code-c2-r1"].unavailable == (
        "cell baseline-code-c2-r1 is PENDING: never started"
    )
    assert ratios["ngram-chat-c1-r1"].value is None
    assert "baseline-code-c4-r1" not in ratios, "a baseline is compared with nothing"


def test_no_baseline_cell_no_ratio(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.server("ngram", NGRAM)
    exports = exports_of("complete")
    run.record(run.plan(cell_plan("ngram", "code", 2, exports)), exports)
    ratios = throughput_ratios(measure_run(run.write(Status.SUCCEEDED)))
    assert ratios["ngram-code-c2-r1"].unavailable == (
        "no cell of baseline has the same prompts, concurrency and repeat"
    )


def test_pooled_over_cells(demo_run: Path) -> None:
    pools = {
        pooled.configuration: pooled for pooled in pool_acceptance(measure_run(demo_run).attempts)
    }
    # complete: 351 steps, 719 accepted, 1364 drafted; coalesced_ngram_c4: 705, 1398, 2740
    ngram = pools["ngram"].acceptance
    assert ngram.length == (1056 + 2117) / 1056
    assert ngram.rate == 2117 / 4104
    assert pools["ngram"].paths == (
        "cells/ngram-code-c2-r1/attempt-2",
        "cells/ngram-code-c4-r1/attempt-1",
    )
    assert pools["twin"].acceptance.length == 4.0


def test_newest_success_counts_once(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.server("baseline")
    exports = exports_of("pinned_base_c1")
    cell = run.plan(cell_plan("baseline", "chat", 1, exports))
    run.record(cell, exports)
    run.record(cell, exports, attempt=2)
    run.fail(cell, Reason.SERVER_DIED, "gone", attempt=3)
    measured = measure_run(run.write())
    assert [attempt.number for attempt in measured.included] == [2]
    assert [attempt.number for attempt in measured.left_out] == [1, 3]


def test_attempt_without_result_is_kept(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.server("baseline")
    exports = exports_of("pinned_base_c1")
    cell = run.plan(cell_plan("baseline", "chat", 1, exports))
    (tmp_path / "run" / "cells" / cell.id / "attempt-1").mkdir(parents=True)
    (only,) = measure_run(run.write()).attempts
    assert (only.number, only.status, only.message) == (1, Status.LOST, "left no result")


def test_figures_are_a_value_or_a_reason(demo_run: Path) -> None:
    frames = build_frames(conclude(measure_run(demo_run)))
    for frame in (frames.speed, frames.acceptance, frames.acceptance_pooled):
        assert (frame["value"].isna() == frame["unavailable"].notna()).all()


def test_records_that_were_cut_after_the_verdict(demo_run: Path) -> None:
    path = demo_run / "cells/ngram-code-c4-r1/attempt-1/load/aiperf/profile_export.jsonl"
    path.write_bytes(path.read_bytes()[:-700])
    with pytest.raises(ArtifactError, match="hold 39 good requests, the verdict on them saw 40"):
        measure_run(demo_run)


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"plan\.json can't be read"):
        measure_run(tmp_path)

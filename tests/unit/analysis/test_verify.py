"""The verdict on recorded exports: what passes, what is refused and why."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runner.analysis.verify import CHECKS
from runner.models.result import RequestCounts, Verdict
from runner.models.status import Reason, Status
from tests.fixtures.run_folder import (
    NGRAM,
    TWIN,
    cell_plan,
    exports_of,
    server_plan,
)
from tests.unit.analysis.judged import BEFORE, edited, ngram_cell, verify


def test_whole_cell_passes_every_check() -> None:
    counts, checks, outcome = verify(ngram_cell(), exports_of("coalesced_ngram_c4"))
    assert counts == RequestCounts(
        planned=40, recorded=40, good=40, errors=0, cancelled=0, empty=0, torn_lines=0
    )
    assert {check.verdict for check in checks.values()} == {Verdict.OK}
    assert outcome == (Status.SUCCEEDED, Reason.COMPLETED, "every check passed")
    assert len(checks) == len(CHECKS)
    assert checks["counters"].message == (
        "drafts 705 in records, 705 counted; accepted 1398 in records, 1398 counted; "
        "output tokens 2560 in records, 2560 counted; 0 % apart, limit 2 %"
    )


def test_cancelled_request_is_refused(tmp_path: Path) -> None:
    def cancel(index: int, record: dict) -> None:
        record["metadata"]["was_cancelled"] = index == 3

    exports = edited(tmp_path, "coalesced_ngram_c4", cancel)
    counts, checks, outcome = verify(ngram_cell(), exports, before=None, after=None)
    assert (counts.recorded, counts.good, counts.cancelled) == (40, 39, 1)
    assert checks["rows"].verdict is Verdict.OK
    assert outcome[1:] == (
        Reason.INCOMPLETE,
        "1 of 40 recorded requests were cancelled, limit 0",
    )


def test_clock_that_was_set_back_is_refused(tmp_path: Path) -> None:
    """The second half begins four seconds earlier, so the window is shorter."""

    def set_back(index: int, record: dict) -> None:
        if index >= 8:
            record["metadata"]["request_start_ns"] -= 4_000_000_000
            record["metadata"]["request_end_ns"] -= 4_000_000_000

    cell = cell_plan("baseline", "chat", 1, exports_of("pinned_base_c1"))
    server = server_plan("baseline")
    exports = edited(tmp_path, "pinned_base_c1", set_back)
    _, checks, outcome = verify(cell, exports, server=server, before=None, after=None)
    assert outcome[1] is Reason.CONFIGURATION_DIFFERS
    assert outcome[2].startswith("1.")
    assert outcome[2].endswith(
        " requests under way on average, concurrency 1; the clock was set back, or the load was "
        "another one than planned"
    )
    _, checks, _ = verify(cell, exports_of("pinned_base_c1"), server=server)
    assert checks["in_flight"].message == "0.99 requests under way on average, concurrency 1"


def test_half_failed_is_refused_although_aiperf_ended_with_0() -> None:
    exports = exports_of("half_failed")
    cell = cell_plan("baseline", "chat", 2, exports, requests=12)
    server = server_plan("baseline")
    counts, checks, outcome = verify(cell, exports, server=server, before=None, after=None)
    assert (counts.recorded, counts.good, counts.errors) == (12, 6, 6)
    assert checks["exit_code"].verdict is Verdict.OK
    assert checks["complete"].verdict is Verdict.OK, "AIPerf itself sees nothing wrong"
    assert outcome == (
        Status.FAILED,
        Reason.REQUEST_ERRORS,
        "6 of 12 failed: 500 Internal Server Error (limit 0 %)",
    )


def test_errors_within_the_limit_are_a_warning() -> None:
    exports = exports_of("half_failed")
    cell = cell_plan("baseline", "chat", 2, exports, requests=12)
    cell = cell.model_copy(update={"error_limit": 0.5})
    _, checks, _ = verify(cell, exports, server=server_plan("baseline"))
    assert checks["errors"].verdict is Verdict.WARN
    assert checks["errors"].message == "6 of 12 failed: 500 Internal Server Error"


def test_interrupted_is_refused_with_its_count() -> None:
    exports = exports_of("interrupted")
    cell = cell_plan("baseline", "chat", 2, exports, requests=200)
    counts, checks, outcome = verify(cell, exports, server=server_plan("baseline"))
    assert (counts.planned, counts.recorded, counts.good) == (200, 28, 28)
    assert outcome == (
        Status.FAILED,
        Reason.INCOMPLETE,
        "cancelled: 28 of 200 requests recorded (Run cancelled before all records were processed.)",
    )
    assert checks["ready_marker"].verdict is Verdict.REFUSE


@pytest.mark.parametrize("exit_code", [143, 137])
def test_killed_load_without_summary_is_refused(tmp_path: Path, exit_code: int) -> None:
    exports = tmp_path / "aiperf"
    exports.mkdir()
    whole = (exports_of("interrupted") / "profile_export.jsonl").read_bytes()
    (exports / "profile_export.jsonl").write_bytes(whole[:-700])
    cell = cell_plan("baseline", "chat", 2, exports_of("interrupted"), requests=200)
    server = server_plan("baseline")
    counts, checks, outcome = verify(cell, exports, server=server, exit_code=exit_code)
    assert (counts.recorded, counts.torn_lines) == (27, 1)
    assert checks["torn_lines"].verdict is Verdict.REFUSE
    assert checks["exit_code"].reason is Reason.LOAD_FAILED
    assert outcome == (
        Status.FAILED,
        Reason.INCOMPLETE,
        "AIPerf left no whole summary; 27 of 200 requests recorded",
    )


def test_no_exports_at_all(tmp_path: Path) -> None:
    counts, _, outcome = verify(ngram_cell(), tmp_path, exit_code=1)
    assert counts.recorded == 0
    assert outcome[:2] == (Status.FAILED, Reason.INCOMPLETE)


def test_nonzero_exit_alone_is_refused() -> None:
    _, _, outcome = verify(ngram_cell(), exports_of("coalesced_ngram_c4"), exit_code=3)
    assert outcome == (
        Status.FAILED,
        Reason.LOAD_FAILED,
        "AIPerf ended with 3, expected 0; 40 requests recorded",
    )


def test_missing_row_is_named(tmp_path: Path) -> None:
    exports = tmp_path / "short"
    shutil.copytree(exports_of("coalesced_ngram_c4"), exports)
    path = exports / "profile_export.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if "session_000007" not in line) + "\n")
    _, checks, outcome = verify(ngram_cell(), exports, before=None, after=None)
    assert outcome[:2] == (Status.FAILED, Reason.INCOMPLETE)
    assert checks["rows"].message == (
        "39 of 40 planned rows recorded: 1 missing, 0 not planned, 0 more than once "
        "(for example session_000007#0)"
    )


def test_repeated_row_is_refused(tmp_path: Path) -> None:
    def repeat(index: int, record: dict) -> None:
        if index == 0:
            record["metadata"]["conversation_id"] = "session_000000"

    exports = edited(tmp_path, "coalesced_ngram_c4", repeat)
    _, checks, _ = verify(ngram_cell(), exports)
    assert checks["rows"].figures == {
        "planned": 40,
        "missing": 1,
        "not_planned": 0,
        "repeated": 1,
    }


def test_empty_answer_is_refused(tmp_path: Path) -> None:
    def empty(index: int, record: dict) -> None:
        if index < 2:
            record["metrics"]["usage_completion_tokens"]["value"] = 0

    counts, _, outcome = verify(
        ngram_cell(), edited(tmp_path, "coalesced_ngram_c4", empty), before=None, after=None
    )
    assert counts.empty == 2
    assert outcome[1:] == (
        Reason.REQUEST_ERRORS,
        "2 of 40 requests have 0 output tokens, limit 0",
    )


def test_answer_above_the_cap_is_refused() -> None:
    cell = ngram_cell().model_copy(update={"output_tokens": 63})
    _, _, outcome = verify(cell, exports_of("coalesced_ngram_c4"))
    assert outcome[1:] == (
        Reason.CONFIGURATION_DIFFERS,
        "40 requests have more than 63 output tokens, the longest 64",
    )


def test_foreign_model_is_refused() -> None:
    server = server_plan("ngram", NGRAM).model_copy(update={"served_name": "tiny-3f9a"})
    _, _, outcome = verify(ngram_cell(), exports_of("coalesced_ngram_c4"), server=server)
    assert outcome[1:] == (
        Reason.FOREIGN_SERVER,
        "the load was sent to tiny, expected 'tiny-3f9a'",
    )


def test_drafter_that_did_not_run_is_refused() -> None:
    exports = exports_of("coalesced_base_c4")
    cell = cell_plan("ngram", "code", 4, exports)
    _, checks, outcome = verify(cell, exports, before=BEFORE, after=BEFORE)
    assert outcome[1:] == (
        Reason.DRAFTER_DID_NOT_RUN,
        "ngram drafted nothing: drafts counted 0, drafted steps recorded 0; expected more than 0",
    )
    assert checks["per_request_metrics"].reason is Reason.METRICS_MISSING


def test_k_that_nobody_tells_is_a_warning(tmp_path: Path) -> None:
    def drop(index: int, record: dict) -> None:
        del record["spec_decode_acceptance"]

    exports = edited(tmp_path, "coalesced_ngram_c4", drop)
    _, checks, _ = verify(ngram_cell(), exports)
    assert checks["drafter_ran"].verdict is Verdict.WARN
    assert checks["drafter_ran"].message == "ngram drafted, its k is not known; the plan says 4"


def test_other_k_is_refused() -> None:
    server = server_plan("twin", TWIN)
    _, _, outcome = verify(ngram_cell(), exports_of("coalesced_ngram_c4"), server=server)
    assert outcome[1:] == (Reason.CONFIGURATION_DIFFERS, "k is 4, the plan says 3")


def test_baseline_that_drafts_is_refused() -> None:
    server = server_plan("baseline")
    _, _, outcome = verify(ngram_cell(), exports_of("coalesced_ngram_c4"), server=server)
    assert outcome[1:] == (
        Reason.CONFIGURATION_DIFFERS,
        "a server without speculation reports speculative figures",
    )


def test_missing_figures_are_refused_only_where_they_were_asked_for(tmp_path: Path) -> None:
    def drop(index: int, record: dict) -> None:
        if index == 0:
            del record["spec_decode_acceptance"]

    exports = edited(tmp_path, "coalesced_ngram_c4", drop)
    _, _, outcome = verify(ngram_cell(), exports, before=None, after=None)
    assert outcome[1:] == (
        Reason.METRICS_MISSING,
        "39 of 40 good requests carry acceptance figures",
    )
    server = server_plan("ngram", NGRAM)
    plain = server.container.model_copy(update={"command": ("serve", "/models/tiny")})
    server = server.model_copy(update={"container": plain})
    _, checks, outcome = verify(ngram_cell(), exports, server=server, before=None, after=None)
    assert checks["per_request_metrics"].verdict is Verdict.WARN
    assert outcome[0] is Status.SUCCEEDED


def test_supervisor_side_needs_no_pandas() -> None:
    code = (
        "import sys, runner.supervisor.__main__;"
        "heavy = ('pandas', 'numpy', 'scipy', 'matplotlib', 'jinja2');"
        "print([m for m in heavy if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"

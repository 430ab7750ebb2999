"""Records against the counters of the server: what agrees, what is refused, what is unknown."""

from __future__ import annotations

import pytest

from runner.models.result import Verdict
from runner.models.status import Reason, Status
from tests.fixtures.run_folder import (
    NGRAM,
    cell_plan,
    counters_text,
    exports_of,
    server_plan,
)
from tests.unit.analysis.judged import AFTER, BEFORE, ngram_cell, tokens_text, verify


def test_baseline_passes() -> None:
    exports = exports_of("pinned_base_c1")
    cell = cell_plan("baseline", "chat", 1, exports)
    server = server_plan("baseline")
    before, after = tokens_text(100), tokens_text(100 + 1024)
    _, checks, outcome = verify(cell, exports, server=server, before=before, after=after)
    assert outcome == (Status.SUCCEEDED, Reason.COMPLETED, "every check passed")
    assert checks["counters"].message == (
        "output tokens 1024 in records, 1024 counted; 0 % apart, limit 2 %"
    )


def test_baseline_without_a_scrape_was_not_compared() -> None:
    exports = exports_of("pinned_base_c1")
    cell = cell_plan("baseline", "chat", 1, exports)
    server = server_plan("baseline")
    _, _, outcome = verify(cell, exports, server=server, before=None, after=None)
    assert outcome == (
        Status.SUCCEEDED,
        Reason.COMPLETED,
        "not compared with the records: no scrape of /metrics",
    )


def test_traffic_of_somebody_else_is_refused() -> None:
    exports = exports_of("pinned_base_c1")
    cell = cell_plan("baseline", "chat", 1, exports)
    server = server_plan("baseline")
    before, after = tokens_text(100), tokens_text(100 + 1024 + 64)
    _, _, outcome = verify(cell, exports, server=server, before=before, after=after)
    assert outcome[1:] == (
        Reason.COUNTERS_DISAGREE,
        "output tokens 1024 in records, 1088 counted; 5.88 % apart, limit 2 %",
    )


def test_tokens_of_failed_requests_are_not_held_against_a_cell() -> None:
    exports = exports_of("half_failed")
    cell = cell_plan("baseline", "chat", 2, exports, requests=12)
    server = server_plan("baseline")
    before, after = tokens_text(0), tokens_text(10_000)
    _, checks, _ = verify(cell, exports, server=server, before=before, after=after)
    assert checks["counters"].verdict is Verdict.WARN


def test_counters_that_only_some_servers_have() -> None:
    before, after = counters_text(10, 40, 20), counters_text(715, 2780, 1418)
    exports = exports_of("coalesced_ngram_c4")
    _, checks, _ = verify(ngram_cell(), exports, before=before, after=after)
    assert checks["counters"].verdict is Verdict.WARN
    assert checks["counters"].message.endswith("; not counted by the server: output tokens")


@pytest.mark.parametrize(
    ("drafts", "accepted", "reason"),
    [
        (715, 1418, None),
        # 705 recorded of 719 counted is 1.9 % apart, 705 of 720 is 2.1 %
        (729, 1418, None),
        (730, 1418, Reason.COUNTERS_DISAGREE),
        (715, 1518, Reason.COUNTERS_DISAGREE),
        (5, 10, Reason.SERVER_DIED),
    ],
)
def test_counters_against_records(drafts: int, accepted: int, reason: Reason | None) -> None:
    after = counters_text(drafts, 2780, accepted, tokens=2576)
    _, checks, _ = verify(ngram_cell(), exports_of("coalesced_ngram_c4"), after=after)
    assert checks["counters"].reason is reason


def test_unknown_counters_are_a_warning_not_zero() -> None:
    _, checks, outcome = verify(ngram_cell(), exports_of("coalesced_ngram_c4"), after=None)
    assert checks["counters"].verdict is Verdict.WARN
    assert checks["drafter_ran"].figures["drafts_counted"] is None
    assert outcome[0] is Status.SUCCEEDED


def test_unreadable_scrape_is_a_warning() -> None:
    _, checks, _ = verify(
        ngram_cell(), exports_of("coalesced_ngram_c4"), after="<html>502 Bad Gateway</html>\n"
    )
    assert checks["counters"].verdict is Verdict.WARN
    assert "not in the Prometheus text format" in checks["counters"].message


@pytest.mark.parametrize(
    ("caching", "hits", "expected"),
    [
        (False, 100, Verdict.OK),
        (False, 9000, Verdict.REFUSE),
        (True, 9000, Verdict.WARN),
    ],
)
def test_prefix_cache(caching: bool, hits: int, expected: Verdict) -> None:
    def scrape(queries: int, found: int) -> str:
        return (
            "# TYPE vllm:prefix_cache_queries_total counter\n"
            f'vllm:prefix_cache_queries_total{{engine="0"}} {queries}\n'
            "# TYPE vllm:prefix_cache_hits_total counter\n"
            f'vllm:prefix_cache_hits_total{{engine="0"}} {found}\n'
        )

    server = server_plan("ngram", NGRAM).model_copy(update={"prefix_caching": caching})
    _, checks, _ = verify(
        ngram_cell(),
        exports_of("coalesced_ngram_c4"),
        server=server,
        before=BEFORE + scrape(10000, 0),
        after=AFTER + scrape(20000, hits),
    )
    assert checks["prefix_cache"].verdict is expected


@pytest.mark.parametrize(("caching", "expected"), [(False, Verdict.OK), (True, Verdict.WARN)])
def test_prefix_cache_that_was_not_checked(caching: bool, expected: Verdict) -> None:
    server = server_plan("ngram", NGRAM).model_copy(update={"prefix_caching": caching})
    exports = exports_of("coalesced_ngram_c4")
    _, checks, _ = verify(ngram_cell(), exports, server=server, after=None)
    assert checks["prefix_cache"].verdict is expected
    assert checks["prefix_cache"].message == "prefix cache not checked: no scrape of /metrics"

"""Steady load, waves, late requests, clocks, lumps and rows that run out."""

from __future__ import annotations

from math import nan, sqrt

import pytest

from runner.analysis.validity import load_rules as rules
from runner.models.result import Verdict
from runner.models.status import Reason
from tests.fixtures.run_folder import NGRAM
from tests.unit.analysis.validity.cell_evidence import MS, columns, made, plain, recorded


def test_recorded_stream_of_one_is_steady() -> None:
    check = rules.steady_state(plain())
    assert check.verdict is Verdict.OK
    assert check.figures["share"] == pytest.approx(0.993, abs=0.001)
    # every answer lies between the first start and the last end: 16 x 64 tokens, 16 completed
    assert check.figures["apart"] == pytest.approx(0, abs=1e-9)
    assert "99.3 % of the time, least 50 %" in check.message


def test_four_rounds_in_waves_are_too_few() -> None:
    # up to the end of the first of the last four: 13 completed, tokens of nearly 16
    check = rules.steady_state(recorded("pinned_base_c4", 4))
    assert check.verdict is Verdict.WARN
    assert 0.1 < float(check.figures["apart"] or 0) < 3 / 13
    assert "limit 10 %" in check.message


def test_share_at_full_load_by_hand() -> None:
    # two streams; both under way from 2 to 4 and from 6 to 10 of 0 to 12 ms: 6 of 12
    spans = [(0.0, 4.0), (2.0, 10.0), (6.0, 12.0)]
    found = rules.full_load(columns(spans), 2)
    assert found == rules.FullLoad(0.5, 2 * MS, 10 * MS)
    # answers of 10 tokens over their whole span: 10 x 2/4 + 10 x 8/8 + 10 x 4/6
    assert rules.tokens_between(columns(spans), 2 * MS, 10 * MS) == pytest.approx(5 + 10 + 20 / 3)
    # from the first token on, at 2 ms: 10 x 2/2, 10 x 6/6, 10 x 2/4
    late = columns(spans, ttft_ms=2.0)
    assert rules.tokens_between(late, 2 * MS, 10 * MS) == pytest.approx(10 + 10 + 5)


def test_answer_in_one_piece_counts_at_its_end() -> None:
    lumps = columns([(0.0, 4.0), (0.0, 6.0)], ttft_ms=6.0)
    assert rules.tokens_between(lumps, 0, 5 * MS) == 10


def test_long_steady_load_passes() -> None:
    # two streams of 4 ms, half a period apart, 20 each; last full moment at the 39th end (80 ms):
    # tokens from 2 ms on = 39 whole ones, less half of the first, plus half of the last; 39 done
    spans = [
        (start, start + 4.0) for round_ in range(20) for start in (4.0 * round_, 4.0 * round_ + 2)
    ]
    check = rules.steady_state(made(columns(spans), 2))
    assert check.verdict is Verdict.OK
    assert check.figures["apart"] == pytest.approx(0, abs=1e-9)


def test_full_load_never_reached() -> None:
    check = rules.steady_state(made(columns([(0.0, 1.0), (2.0, 3.0)]), 2))
    assert check.verdict is Verdict.WARN
    assert check.message == (
        "never 2 requests under way at once; 2 requests, 8 (4 a stream) are the least"
    )


@pytest.mark.parametrize(("count", "verdict"), [(3, Verdict.WARN), (4, Verdict.OK)])
def test_fewer_than_four_rounds(count: int, verdict: Verdict) -> None:
    spans = [(10.0 * number, 10.0 * number + 10) for number in range(count)]
    assert rules.steady_state(made(columns(spans), 1)).verdict is verdict


def test_waves_are_told() -> None:
    # 8 starts at once every 100 ms, 10 times: gaps 7 x 0 and 1 x 100, nearly √7 = 2.65
    spans = [(100.0 * wave, 100.0 * wave + 90) for wave in range(10) for _ in range(8)]
    check = rules.lockstep(made(columns(spans), 8))
    assert check.verdict is Verdict.WARN
    # 79 gaps: 9 of 100 ms, 70 of 0; mean 900/79, mean of squares 90000/79
    mean = 900 / 79
    assert check.figures["variation"] == pytest.approx(sqrt(90000 / 79 - mean**2) / mean)
    assert "limit 2 " in check.message


def test_slow_waves_and_single_streams_are_no_lockstep() -> None:
    spans = [(9000.0 * wave, 9000.0 * wave + 90) for wave in range(10) for _ in range(8)]
    assert rules.lockstep(made(columns(spans), 8)).verdict is Verdict.OK
    assert rules.lockstep(made(columns(spans), 1)).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("name", "concurrency"), [("pinned_base_c1", 1), ("pinned_base_c4", 4), ("interrupted", 2)]
)
def test_recorded_runs_send_in_time(name: str, concurrency: int) -> None:
    evidence = recorded(name, concurrency)
    assert rules.client_saturation(evidence).verdict is Verdict.OK
    assert rules.lockstep(evidence).verdict is Verdict.OK


@pytest.mark.parametrize("name", ["coalesced_base_c4", "coalesced_ngram_c4", "complete"])
def test_recorded_runs_on_shared_cores_send_late(name: str) -> None:
    check = rules.client_saturation(recorded(name, 4))
    assert check.verdict is Verdict.WARN
    assert "limit 5 %" in check.message
    assert "limit 20 %" in check.message


@pytest.mark.parametrize(("waited", "verdict"), [(5.0, Verdict.OK), (5.1, Verdict.WARN)])
def test_late_by_the_median(waited: float, verdict: Verdict) -> None:
    # 5 % of a latency of 100 ms
    spans = [(100.0 * number, 100.0 * number + 100) for number in range(5)]
    check = rules.client_saturation(made(columns(spans, waited_ms=waited)))
    assert check.verdict is verdict


@pytest.mark.parametrize(
    "name",
    ["complete", "coalesced_base_c4", "pinned_base_c1", "pinned_base_c4", "half_failed"],
)
def test_clocks_of_recorded_runs_agree(name: str) -> None:
    check = rules.clock_steps(recorded(name, 4))
    assert check.verdict is Verdict.OK
    assert check.message.startswith("0 of ")


@pytest.mark.parametrize(
    ("requests", "verdict", "reason"),
    [(100, Verdict.WARN, None), (99, Verdict.REFUSE, Reason.CONFIGURATION_DIFFERS)],
)
def test_clock_set_during_a_request(requests: int, verdict: Verdict, reason: Reason | None) -> None:
    # one of 100 is 1 %, which is the limit; one of 99 is above it
    found = columns([(10.0 * number, 10.0 * number + 10) for number in range(requests)])
    found.end_ns[7] += 51 * MS
    check = rules.clock_steps(made(found))
    assert (check.verdict, check.reason) == (verdict, reason)
    assert f"1 of {requests} requests" in check.message
    assert "(most 51 ms)" in check.message


def test_tolerance_of_long_requests() -> None:
    # 5 % of 2000 ms = 100 ms
    found = columns([(0.0, 2000.0)])
    found.end_ns[0] += 99 * MS
    assert rules.clock_steps(made(found)).verdict is Verdict.OK
    found.end_ns[0] += 2 * MS
    assert rules.clock_steps(made(found)).verdict is Verdict.REFUSE


def test_clock_set_back_shows_as_requests_before_their_order() -> None:
    check = rules.clock_steps(made(columns([(0.0, 10.0)] * 3, waited_ms=-60.0)))
    assert check.verdict is Verdict.WARN
    assert "3 were sent before they were to be (most 60 ms)" in check.message


@pytest.mark.parametrize(
    ("name", "verdict", "words"),
    [
        ("coalesced_ngram_c4", Verdict.WARN, "40 of 40 streams arrived in lumps, 100 %, limit 5 %"),
        ("complete", Verdict.WARN, "19 of 20"),
        ("pinned_base_c4", Verdict.OK, "0 of 16"),
    ],
)
def test_lumps_as_speed_sees_them(name: str, verdict: Verdict, words: str) -> None:
    check = rules.coalesced(recorded(name, 4, NGRAM))
    assert check.verdict is verdict
    assert words in check.message
    assert ("interactivity refused" in check.message) == (verdict is Verdict.WARN)


@pytest.mark.parametrize(
    ("duration_s", "verdict"),
    # the window is 10.84 s long and all 16 rows are in it
    [(None, Verdict.OK), (11.0, Verdict.OK), (12.0, Verdict.WARN)],
)
def test_rows_run_out(duration_s: float | None, verdict: Verdict) -> None:
    check = rules.rows_exhausted(plain(duration_s=duration_s))
    assert check.verdict is verdict
    if duration_s is not None:
        assert f"16 of 16 rows in 10.8 s of {duration_s:g} s, least 95 %" in check.message


def test_rows_are_left_when_the_time_is_over() -> None:
    evidence = plain(duration_s=12.0)
    rows = (*evidence.cell.rows, evidence.cell.rows[0].model_copy(update={"id": "left"}))
    assert rules.rows_exhausted(plain(duration_s=12.0, rows=rows)).verdict is Verdict.OK


def test_latencies_that_are_not_recorded() -> None:
    found = columns([(0.0, 10.0)] * 4)
    for place in range(4):
        found.latency_ms[place] = nan
        found.ttft_ms[place] = nan
    evidence = made(found)
    for rule in (rules.client_saturation, rules.clock_steps, rules.coalesced, rules.lockstep):
        assert rule(evidence).verdict is Verdict.OK

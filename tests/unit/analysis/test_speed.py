"""Throughput, latency and the gate against streams that arrive in lumps."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.analysis.records import RequestRecord, read_records
from runner.analysis.speed import distribution, percentile, speed
from tests.fixtures.run_folder import exports_of


def recorded(name: str) -> list[RequestRecord]:
    return list(read_records(exports_of(name) / "profile_export.jsonl"))


@pytest.mark.parametrize(
    ("name", "tokens", "window_ns", "itl_ms"),
    [
        # 16 requests of 64 tokens; AIPerf's own mean ITL: 10.185971166666665
        ("pinned_base_c1", 1024, 10_843_815_255, 10.185971166666665),
        ("pinned_base_c4", 1024, 3_109_337_822, 11.06301402876984),
    ],
)
def test_pinned_runs_are_believed(name: str, tokens: int, window_ns: int, itl_ms: float) -> None:
    figures = speed(recorded(name))
    assert (figures.requests, figures.output_tokens) == (16, tokens)
    assert figures.window_s == window_ns / 1e9
    assert figures.output_token_throughput == pytest.approx(tokens / (window_ns / 1e9))
    assert figures.interactivity.refused_reason is None
    assert figures.interactivity.itl_ms == pytest.approx(itl_ms)
    assert figures.interactivity.value == pytest.approx(1000 / itl_ms)
    assert figures.ttft_ms is not None


@pytest.mark.parametrize(
    ("name", "coalesced", "zero", "of"),
    [
        ("complete", 19, 17, 20),
        ("coalesced_base_c4", 40, 40, 40),
        ("coalesced_ngram_c4", 40, 40, 40),
    ],
)
def test_lumps_are_refused(name: str, coalesced: int, zero: int, of: int) -> None:
    figures = speed(recorded(name))
    assert figures.interactivity.value is None
    assert figures.interactivity.itl_ms is None
    assert figures.interactivity.refused_reason == (
        f"streams arrived in lumps: {coalesced} of {of} requests "
        f"({zero} with no time at all between tokens), limit 5 %"
    )
    assert figures.ttft_ms is None, "the first token came with the last"
    assert figures.latency_ms is not None, "the end of a request is still known"
    assert figures.output_token_throughput is not None


def test_throughput_of_the_ngram_run() -> None:
    # 40 requests of 64 tokens between 2.558108659 s
    assert speed(recorded("coalesced_ngram_c4")).output_token_throughput == 2560 / 2.558108659


def test_failed_requests_lend_no_time() -> None:
    figures = speed(recorded("half_failed"))
    assert figures.requests == 6
    assert figures.output_tokens == 72
    assert figures.latency_ms is not None
    assert figures.latency_ms.mean == pytest.approx(64.63282083333333)


def test_nothing_measured() -> None:
    figures = speed([])
    assert figures.output_token_throughput is None
    assert figures.latency_ms is None
    assert figures.interactivity.refused_reason == "no request has a time between tokens"


def test_one_lump_in_twenty_is_within_the_limit() -> None:
    records = recorded("pinned_base_c1") + recorded("pinned_base_c4")[:4]
    lump = msgspec.structs.replace(records[0], chunks=1)
    assert speed([lump, *records[1:]]).interactivity.refused_reason is None
    assert speed([lump, lump, *records[2:]]).interactivity.refused_reason is not None


def test_percentiles_are_interpolated() -> None:
    # rank (4 - 1) * 0.9 = 2.7: between 30 and 40, seven tenths of the way
    assert percentile([10.0, 20.0, 30.0, 40.0], 90) == pytest.approx(37.0)
    assert percentile([5.0], 99) == 5.0
    found = distribution([40.0, 10.0, 30.0, 20.0])
    assert found is not None
    assert (found.mean, found.p50) == (25.0, 25.0)


@given(data=st.data())
def test_order_changes_nothing(data: st.DataObject) -> None:
    records = recorded("pinned_base_c4")
    assert speed(data.draw(st.permutations(records))) == speed(records)

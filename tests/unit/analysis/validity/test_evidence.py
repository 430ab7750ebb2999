"""Gauges of AIPerf's server metrics, and samples of nvidia-smi."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runner.analysis.validity.evidence import (
    Gauge,
    Telemetry,
    parse_telemetry,
    read_gauges,
)
from tests.fixtures.run_folder import exports_of

H200 = Path(__file__).parents[3] / "data" / "hosts" / "h200" / "nvidia-smi-csv.txt"


def test_recorded_gauges() -> None:
    gauges = read_gauges(exports_of("coalesced_ngram_c4"))
    assert gauges["vllm:num_requests_waiting"] == Gauge(0.0, 0.0)
    assert gauges["vllm:kv_cache_usage_perc"] == Gauge(0.0, 0.0)
    assert gauges["vllm:cache_config_info"] == Gauge(1.0, 1.0)
    assert "vllm:num_preemptions" not in gauges, "a counter is no gauge"


def test_requests_of_engines_add_up_and_fullest_cache_counts(tmp_path: Path) -> None:
    series = [{"stats": {"avg": 0.25, "max": 2}}, {"stats": {"avg": 0.5, "max": 1}}]
    names = ("vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
    metrics = {name: {"type": "gauge", "series": series} for name in names}
    path = tmp_path / "server_metrics_export.json"
    path.write_text(json.dumps({"metrics": metrics}))
    assert read_gauges(tmp_path) == {
        "vllm:num_requests_waiting": Gauge(0.75, 3),
        "vllm:kv_cache_usage_perc": Gauge(0.5, 2),
    }


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        "[]",
        '{"metrics": []}',
        '{"metrics": {"a": 1}}',
        '{"metrics": {"a": {"type": "gauge"}}}',
        '{"metrics": {"a": {"type": "gauge", "series": [1, {"stats": {"avg": null}}, {}]}}}',
        '{"metrics": {"a": {"type": "gauge", "series": [{"stats": {"avg": NaN, "max": 1}}]}}}',
    ],
)
def test_missing_or_broken_metrics(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "server_metrics_export.json").write_text(text)
    assert read_gauges(tmp_path) == {}


def timed(at: str) -> list[str]:
    """The recorded answer with a leading column of time, as nvidia-smi writes it."""
    heading, row = H200.read_text().splitlines()
    return [f"timestamp, {heading}", f"{at}, {row}"]


def test_recorded_sample() -> None:
    at = datetime(2026, 12, 1, 10, 15, 0, 123_000, tzinfo=UTC)
    assert parse_telemetry(timed("2026/12/01 10:15:00.123")) == (
        Telemetry(
            at_ns=int(at.timestamp()) * 1_000_000_000 + 123_000_000,
            gpu=0,
            temperature_c=41.0,
            sm_clock_mhz=345.0,
            power_w=80.71,
            throttle=frozenset({"gpu_idle"}),
        ),
    )


def test_reasons_by_bit_and_unknown_values() -> None:
    lines = [
        "timestamp, index, power.draw [W], clocks_throttle_reasons.active",
        "2026/12/01 10:15:00.000, 0, [N/A], 0x0000000000000064",
        "2026/12/01 10:15:00.000, 1, 700.10 W, [Not Supported]",
    ]
    first, second = parse_telemetry(lines)
    # 0x64 = 0x4 + 0x20 + 0x40
    assert first.throttle == {"sw_power_cap", "sw_thermal", "hw_thermal"}
    assert (first.power_w, first.temperature_c, first.sm_clock_mhz) == (None, None, None)
    assert (second.gpu, second.power_w, second.throttle) == (1, 700.1, frozenset())


def test_rows_without_time_or_index_are_left_out() -> None:
    assert parse_telemetry(H200.read_text().splitlines()) == ()
    assert parse_telemetry([]) == ()
    assert parse_telemetry(["No devices were found"]) == ()
    heading, _ = timed("2026/12/01 10:15:00.123")
    assert parse_telemetry([heading, "Unable to determine the device handle", ""]) == ()
    again = timed("2026/12/01 10:15:00.123") + timed("2026/12/01 10:15:01.123")
    assert len(parse_telemetry(again)) == 2

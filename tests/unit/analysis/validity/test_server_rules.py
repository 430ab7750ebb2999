"""Cache, queue, preemptions, synthetic acceptance and throttled GPUs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from runner.analysis.settings import effective_settings
from runner.analysis.validity import server_rules as rules
from runner.analysis.validity.evidence import CellEvidence, Gauge, Telemetry
from runner.models.result import Verdict
from runner.models.status import Reason
from tests.unit.analysis.validity.cell_evidence import MS, grown, ngram, plain

VLLM = Path(__file__).parents[3] / "data" / "vllm"


@pytest.mark.parametrize(
    ("hits", "verdict"), [(0, Verdict.OK), (50, Verdict.OK), (51, Verdict.WARN)]
)
def test_cached_share(hits: int, verdict: Verdict) -> None:
    deltas = grown(prefix_cache_queries=1000, prefix_cache_hits=hits)
    check = rules.prefix_cache_share(replace(plain(), deltas=deltas))
    assert check.verdict is verdict
    assert f"{hits / 10:.3g} % of the prompt tokens" in check.message
    assert "limit 5 %" in check.message


def test_counters_that_are_not_known() -> None:
    for rule in (rules.prefix_cache_share, rules.preemptions):
        check = rule(plain())
        assert check.verdict is Verdict.OK
        assert "was not scraped" in check.message


@pytest.mark.parametrize(
    ("mean", "highest", "verdict"),
    [(0.5, 4, Verdict.OK), (0.51, 4, Verdict.WARN), (0.0, 5, Verdict.WARN)],
)
def test_requests_that_wait(mean: float, highest: float, verdict: Verdict) -> None:
    # concurrency 8: more than 0.5 on average, or more than 4 at once
    evidence = replace(
        plain(concurrency=8), gauges={"vllm:num_requests_waiting": Gauge(mean, highest)}
    )
    check = rules.server_queue(evidence)
    assert check.verdict is verdict
    assert check.message.startswith("queued: ") == (verdict is Verdict.WARN)
    assert "limit 0.5; at most" in check.message


@pytest.mark.parametrize(
    ("concurrency", "more", "verdict"),
    [
        (8, {}, Verdict.OK),
        (9, {}, Verdict.WARN),
        (9, {"parallel_config.data_parallel_size": "2"}, Verdict.OK),
        (9, {"scheduler_config.max_num_seqs": "16 / 8"}, Verdict.WARN),
    ],
)
def test_more_streams_than_slots(concurrency: int, more: dict[str, str], verdict: Verdict) -> None:
    # the recorded server runs at most 8 requests
    settings = effective_settings(json.loads((VLLM / "server_info_ngram.json").read_bytes()))
    evidence = replace(plain(concurrency=concurrency), settings={**settings, **more})
    check = rules.server_queue(evidence)
    assert check.verdict is verdict
    assert f"concurrency {concurrency}, the server runs at most" in check.message


def test_recorded_gauges_show_no_queue() -> None:
    check = rules.server_queue(ngram())
    assert check.verdict is Verdict.OK
    assert "0.00 requests waiting on average" in check.message
    assert "not worked out" in rules.server_queue(plain()).message


def test_preemptions() -> None:
    good = rules.preemptions(replace(plain(), deltas=grown(num_preemptions=0)))
    assert (good.verdict, good.message) == (Verdict.OK, "0 preemptions, limit 0")
    bad = rules.preemptions(replace(plain(), deltas=grown(num_preemptions=3)))
    assert bad.verdict is Verdict.WARN
    assert bad.message == "3 preemptions, limit 0: the KV cache was full"


def commanded(*command: str) -> CellEvidence:
    evidence = ngram()
    container = evidence.server.container.model_copy(update={"command": command})
    return replace(evidence, server=evidence.server.model_copy(update={"container": container}))


@pytest.mark.parametrize(
    "command",
    [
        ('--speculative-config={"rejection_sample_method": "synthetic"}',),
        ("--speculative-config", '{"synthetic_acceptance_length":2.5}'),
        ("--speculative-config", "{'synthetic-acceptance-rates': [0.9, 0.5]}"),
        ("--speculative-config.rejection_sample_method", "synthetic"),
    ],
)
def test_synthetic_acceptance_by_command(command: tuple[str, ...]) -> None:
    check = rules.synthetic_acceptance(commanded(*command))
    assert (check.verdict, check.reason) == (Verdict.REFUSE, Reason.CONFIGURATION_DIFFERS)
    assert "the server's command" in check.message


@pytest.mark.parametrize(
    ("settings", "verdict"),
    [
        ({"speculative_config.rejection_sample_method": "synthetic"}, Verdict.REFUSE),
        ({"speculative_config": "method mtp, synthetic_acceptance_length 2.5"}, Verdict.REFUSE),
        ({"speculative_config.rejection_sample_method": "standard"}, Verdict.OK),
        ({"speculative_config.synthetic_acceptance_rates": "null"}, Verdict.OK),
        ({"speculative_config.synthetic_acceptance_length": "None"}, Verdict.OK),
        ({}, Verdict.OK),
    ],
)
def test_synthetic_acceptance_by_settings(settings: dict[str, str], verdict: Verdict) -> None:
    assert rules.synthetic_acceptance(replace(ngram(), settings=settings)).verdict is verdict


def test_recorded_servers_are_not_synthetic() -> None:
    settings = effective_settings(json.loads((VLLM / "server_info_draft.json").read_bytes()))
    check = rules.synthetic_acceptance(replace(ngram(), settings=settings))
    assert check.message == "none in the server's settings and command"
    nulls = '{"rejection_sample_method":"standard","synthetic_acceptance_length":null}'
    assert rules.synthetic_acceptance(commanded(nulls)).verdict is Verdict.OK


def sample(at_ns: int, *throttle: str) -> Telemetry:
    return Telemetry(at_ns, 1, 80.0, 1200.0, 690.0, frozenset(throttle))


def test_throttled_samples_in_the_window() -> None:
    evidence = plain()
    first, last = evidence.window_ns or (0, 0)
    samples = (
        sample(first - MS, "hw_thermal"),
        sample(first, "sw_power_cap", "gpu_idle"),
        sample(first + MS),
        sample(last - MS, "gpu_idle"),
        sample(last, "sw_thermal"),
    )
    check = rules.gpu_throttle(replace(evidence, telemetry=samples))
    assert check.verdict is Verdict.WARN
    assert check.message == (
        "2 of 4 GPU samples throttled, 50 %, limit 0: sw_power_cap, sw_thermal on GPU 1"
    )
    good = rules.gpu_throttle(replace(evidence, telemetry=samples[2:4]))
    assert (good.verdict, good.message) == (
        Verdict.OK,
        "0 of 2 GPU samples throttled, 0 %, limit 0",
    )


def test_no_sample_says_nothing() -> None:
    assert rules.gpu_throttle(plain()).message == "no telemetry recorded"
    outside = replace(plain(), telemetry=(sample(1, "hw_thermal"),))
    check = rules.gpu_throttle(outside)
    assert (check.verdict, check.message) == (Verdict.OK, "none of 1 samples lies in the window")

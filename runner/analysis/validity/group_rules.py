"""Rules about groups of cells: repeats, loads of one server, both sides of a pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from runner.analysis.checked import judged, ok, percent, refuse
from runner.models.result import Check
from runner.models.status import Reason

SPREAD_LIMIT = 0.05
"""speculators' rule 5: a smaller difference between configurations is within repeats."""
TTFT_FLOOR_MS = 1000.0
"""speculators' rule 8: below it nobody calls it a queue."""
TTFT_FACTOR = 10.0
"""speculators' rule 8: of the lowest median; prefill of a fuller batch alone makes it less."""
LENGTHS_WARN = 0.01
"""Batch sizes change numerics and those the text; above it, throughput compares other work."""
LENGTHS_REFUSE = 0.10
"""No longer numerics: the two sides answered other prompts or under other settings."""


def repeat_spread(values: Sequence[float]) -> Check:
    """(max - min) / mean of one figure over repeats of a cell."""
    name = "repeat_spread"
    if len(values) < 2:
        return ok(name, "measured once: no spread known", repeats=len(values))
    mean = fsum(values) / len(values)
    spread = (max(values) - min(values)) / abs(mean) if mean else 0.0
    message = (
        f"{len(values)} repeats lie {percent(spread)} of their mean apart, "
        f"limit {percent(SPREAD_LIMIT)}"
    )
    return judged(name, spread > SPREAD_LIMIT, message, spread=spread, repeats=len(values))


def queueing(median_ttft_ms_by_concurrency: Mapping[int, float]) -> Mapping[int, Check]:
    """By concurrency: whether requests to one server queue there before their first token."""
    if not median_ttft_ms_by_concurrency:
        return {}
    lowest = min(median_ttft_ms_by_concurrency.values())
    limit = max(TTFT_FLOOR_MS, TTFT_FACTOR * lowest)
    checks = {}
    for concurrency, ttft in sorted(median_ttft_ms_by_concurrency.items()):
        bad = ttft > limit
        message = f"median time to first token {ttft:.0f} ms, limit {limit:.0f} ms" + (
            ": the server queues" if bad else ""
        )
        checks[concurrency] = judged("queueing", bad, message, ttft_ms=ttft, limit_ms=limit)
    return checks


def output_lengths(ours: int, theirs: int) -> Check:
    """Summed output tokens of a cell and of its baseline, apart as a share of the baseline's: both
    did about the same work.

    Args:
        ours: of the cell, over the requests that both sides answered.
        theirs: of the baseline, over the same ones.
    """
    name = "output_lengths"
    if not theirs:
        return ok(name, "not compared: the baseline has no output tokens")
    apart = abs(ours - theirs) / theirs
    message = (
        f"{ours} output tokens against {theirs} of the baseline, {percent(apart)} apart, "
        f"limit {percent(LENGTHS_WARN)}, pair refused above {percent(LENGTHS_REFUSE)}"
    )
    figures = {"apart": apart, "ours": ours, "theirs": theirs}
    if apart > LENGTHS_REFUSE:
        return refuse(name, Reason.CONFIGURATION_DIFFERS, message, **figures)
    return judged(name, apart > LENGTHS_WARN, message, **figures)

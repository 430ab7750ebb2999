"""Rules about the load: was it steady, sent in time, and long enough."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import fsum, isnan, sqrt
from statistics import median

from runner.analysis.checked import judged, ok, percent, refuse, warn
from runner.analysis.requests import RequestColumns
from runner.analysis.speed import COALESCED_LIMIT, percentile, pool_columns
from runner.analysis.validity.evidence import CellEvidence
from runner.models.result import Check
from runner.models.status import Reason

FULL_LOAD_SHARE = 0.5
"""Below it, more than half of the window is ramp-up, drain or waiting for the load."""
STEADY_TOLERANCE = 0.10
"""speculators' rule 4: tokens of the window per completed request against the mean answer."""
ROUNDS = 4
"""Requests per stream below which ramp-up and drain are a large part of what is measured."""
LOCKSTEP_LIMIT = 2.0
"""speculators' rule 6: independent arrivals have a coefficient of variation of 1; C streams that
start together and wait for each other have √(C - 1)."""
LOCKSTEP_RATE = 1.0
"""Requests/s below which single long answers make the same pattern."""
LATE_MEDIAN = 0.05
"""Of the median latency: time that requests spent in the load generator is in no latency, so the
server was not as busy as the concurrency says. Pinned recorded runs have 0.1 and 0.4 %."""
LATE_P95 = 0.20
"""The same at the 95th percentile: single stalls. Pinned recorded runs have 0.6 and 1 %."""
CLOCK_FLOOR_MS = 50.0
"""The span of a recorded request exceeds its latency by up to 4.1 ms, the tail of the stream after
the last token; ten times that is a clock."""
CLOCK_SHARE = 0.05
"""Of the latency: as `CLOCK_FLOOR_MS`, for long requests."""
CLOCK_REQUESTS = 0.01
"""Share of such requests above which times of the cell mean nothing."""
DURATION_SHARE = 0.95
"""A window that is shorter than this share of its time ended because the rows did."""


@dataclass(frozen=True)
class FullLoad:
    """Time with all streams busy: share of the window, first and last moment (ns)."""

    share: float
    first_ns: int
    last_ns: int


def full_load(requests: RequestColumns, concurrency: int) -> FullLoad | None:
    """When `concurrency` requests were under way; None when they never were."""
    events = sorted(
        [(at, 1) for at in requests.start_ns] + [(at, -1) for at in requests.end_ns],
    )
    under_way = busy_ns = 0
    first: int | None = None
    last = before = events[0][0] if events else 0
    for at, change in events:
        if under_way >= concurrency and at > before:
            first = before if first is None else first
            last = at
            busy_ns += at - before
        under_way += change
        before = at
    if first is None:
        return None
    return FullLoad(busy_ns / (events[-1][0] - events[0][0]), first, last)


def tokens_between(requests: RequestColumns, first_ns: int, last_ns: int) -> float:
    """Output tokens of that time, those of one answer spread evenly from first token to end."""
    parts: list[float] = []
    for place, tokens in enumerate(requests.output_tokens):
        start, end = requests.start_ns[place], requests.end_ns[place]
        ttft_ms = requests.ttft_ms[place]
        begin = start if isnan(ttft_ms) else min(start + round(ttft_ms * 1e6), end)
        if begin >= end:
            parts.append(tokens if first_ns <= end <= last_ns else 0)
        else:
            within = max(0, min(end, last_ns) - max(begin, first_ns))
            parts.append(tokens * within / (end - begin))
    return fsum(parts)


def steady_state(evidence: CellEvidence) -> Check:
    """All streams were busy most of the time, and as much was begun as finished.

    Tokens and completed requests are those between the first and the last moment with all requests
    under way: where one answer of each stream is still to come, the window is too short.
    """
    name, requests, concurrency = "steady_state", evidence.requests, evidence.cell.concurrency
    count, wanted = len(requests), ROUNDS * concurrency
    if not count:
        return ok(name, "not worked out: no good request")
    found = full_load(requests, concurrency)
    enough = f"{count} requests, {wanted} ({ROUNDS} a stream) are the least"
    if found is None:
        message = f"never {concurrency} requests under way at once; {enough}"
        return warn(name, message, share=0.0, requests=count)
    completed = sum(found.first_ns < end <= found.last_ns for end in requests.end_ns)
    mean = sum(requests.output_tokens) / count
    each = tokens_between(requests, found.first_ns, found.last_ns) / completed
    apart = abs(each / mean - 1)
    message = (
        f"all {concurrency} requests under way {percent(found.share)} of the time, least "
        f"{percent(FULL_LOAD_SHARE)}; {each:.1f} tokens for each request completed at full load, "
        f"mean answer {mean:.1f}, {percent(apart)} apart, limit {percent(STEADY_TOLERANCE)}; "
        f"{enough}"
    )
    bad = found.share < FULL_LOAD_SHARE or apart > STEADY_TOLERANCE or count < wanted
    return judged(name, bad, message, share=found.share, apart=apart, requests=count)


def lockstep(evidence: CellEvidence) -> Check:
    """Requests do not start in waves, which load the server in turns with prefill and decode."""
    name, starts = "lockstep", sorted(evidence.requests.start_ns)
    if evidence.cell.concurrency < 2:
        return ok(name, "one stream: nothing to keep step with")
    gaps = [(after - before) / 1e9 for before, after in pairwise(starts)]
    if len(gaps) < 2 or starts[-1] == starts[0]:
        return ok(name, "not worked out: too few starts")
    mean = fsum(gaps) / len(gaps)
    variation = sqrt(fsum((gap - mean) ** 2 for gap in gaps) / len(gaps)) / mean
    message = (
        f"gaps between starts vary by {variation:.2f} of their mean, limit {LOCKSTEP_LIMIT:g} "
        f"from {LOCKSTEP_RATE:g} request/s on, here {1 / mean:.3g} requests/s"
    )
    bad = variation > LOCKSTEP_LIMIT and 1 / mean >= LOCKSTEP_RATE
    return judged(name, bad, message, variation=variation, rate=1 / mean)


def client_saturation(evidence: CellEvidence) -> Check:
    """The load generator sent requests when it was to."""
    name, requests = "client_saturation", evidence.requests
    waits = sorted(wait for wait in requests.waited_ms if not isnan(wait))
    latencies = [value for value in requests.latency_ms if not isnan(value)]
    typical = median(latencies) if latencies else 0.0
    if not waits or typical <= 0:
        return ok(name, "not worked out: the records do not tell when requests were to be sent")
    middle, high = median(waits), percentile(waits, 95)
    message = (
        f"requests sent {middle:.1f} ms late (median), {percent(middle / typical)} of the median "
        f"latency, limit {percent(LATE_MEDIAN)}; 95th percentile {high:.1f} ms, "
        f"{percent(high / typical)}, limit {percent(LATE_P95)}"
    )
    bad = middle > LATE_MEDIAN * typical or high > LATE_P95 * typical
    return judged(name, bad, message, median_ms=middle, p95_ms=high, latency_ms=typical)


def clock_steps(evidence: CellEvidence) -> Check:
    """The clock of the host was not set during the cell.

    Two traces: a request whose span by the time of day is not its latency, and one that was sent
    before it was to be. AIPerf 0.13 works ends and orders out with a monotonic clock, so that a
    step shows there in the second way only; a clock set forward makes requests look late.
    """
    name, requests = "clock_steps", evidence.requests
    apart, early = [], []
    for place, latency in enumerate(requests.latency_ms):
        limit = max(CLOCK_FLOOR_MS, 0.0 if isnan(latency) else CLOCK_SHARE * latency)
        span = (requests.end_ns[place] - requests.start_ns[place]) / 1e6
        if not isnan(latency) and abs(span - latency) > limit:
            apart.append(abs(span - latency))
        if requests.waited_ms[place] < -limit:
            early.append(-requests.waited_ms[place])
    if not len(requests):
        return ok(name, "not worked out: no good request")
    share = len(apart) / len(requests)
    message = (
        f"{len(apart)} of {len(requests)} requests lasted otherwise by the time of day than by a "
        f"monotonic clock (most {max(apart, default=0.0):.0f} ms), {len(early)} were sent before "
        f"they were to be (most {max(early, default=0.0):.0f} ms); tolerance "
        f"{CLOCK_FLOOR_MS:.0f} ms or {percent(CLOCK_SHARE)} of the latency, limit 0, "
        f"refused above {percent(CLOCK_REQUESTS)} of the requests"
    )
    if share > CLOCK_REQUESTS:
        return refuse(name, Reason.CONFIGURATION_DIFFERS, message, apart=len(apart), share=share)
    return judged(name, bool(apart or early), message, apart=len(apart), early=len(early))


def lumps(requests: RequestColumns) -> tuple[int, int]:
    """Requests whose stream arrived in lumps, and those with a time between tokens at all."""
    pool = pool_columns(requests)
    return pool.coalesced, len(pool.itls)


def coalesced(evidence: CellEvidence) -> Check:
    """Streams arrived piece by piece: times between tokens can be believed."""
    name = "coalesced"
    count, judgeable = lumps(evidence.requests)
    if not judgeable:
        return ok(name, "not worked out: no request has a time between tokens")
    share = count / judgeable
    message = (
        f"{count} of {judgeable} streams arrived in lumps, {percent(share)}, "
        f"limit {percent(COALESCED_LIMIT)}"
    )
    bad = share > COALESCED_LIMIT
    message += ": interactivity refused" if bad else ""
    return judged(name, bad, message, share=share)


def rows_exhausted(evidence: CellEvidence) -> Check:
    """A cell that is to end by the clock did not run out of rows before."""
    name, cell, window = "rows_exhausted", evidence.cell, evidence.window_ns
    if cell.duration_s is None:
        return ok(name, "ends with its rows, as planned")
    if window is None or cell.duration_s <= 0:
        return ok(name, "not worked out: no good request")
    seconds = (window[1] - window[0]) / 1e9
    planned = sum(row.turns for row in cell.rows)
    recorded = len(set(zip(evidence.requests.row, evidence.requests.turn, strict=True)))
    message = (
        f"{recorded} of {planned} rows in {seconds:.1f} s of {cell.duration_s:g} s, least "
        f"{percent(DURATION_SHARE)} of the time"
    )
    bad = recorded >= planned and seconds < DURATION_SHARE * cell.duration_s
    message += ": the rows ran out" if bad else ""
    return judged(name, bad, message, recorded=recorded, planned=planned, window_s=seconds)

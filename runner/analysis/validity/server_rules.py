"""Rules about the server: what helped it, held it up or slowed it down."""

from __future__ import annotations

import re

from runner.analysis.checked import judged, ok, percent, refuse, warn
from runner.analysis.prometheus import PREFIX_CACHE_HITS, PREFIX_CACHE_QUERIES
from runner.analysis.validity.evidence import (
    POWER,
    PREEMPTIONS,
    REQUESTS_WAITING,
    THERMAL,
    CellEvidence,
)
from runner.models.result import Check
from runner.models.status import Reason

CACHED_SHARE = 0.05
"""speculators' rule 7: above it, time to first token is that of a cache, and prompts of the set
share much of their text."""
WAITING_MEAN = 0.5
"""A request that waits half of the time makes the stated concurrency one that is not served."""
WAITING_PEAK = 0.5
"""Of the concurrency: half of the streams waiting at once."""
MAX_NUM_SEQS = "scheduler_config.max_num_seqs"
DATA_PARALLEL = "parallel_config.data_parallel_size"

_SYNTHETIC = re.compile(
    r"""rejection[_-]sample[_-]method["'\s:=]+synthetic"""
    r"""|synthetic[_-]acceptance[_-](?:length|rates?)["'\s:=]+(?!null\b|none\b)[\w.\[]""",
    re.IGNORECASE,
)


def prefix_cache_share(evidence: CellEvidence) -> Check:
    """The prefix cache did not take over much of the prefill."""
    name = "prefix_cache_share"
    asked = evidence.delta(PREFIX_CACHE_QUERIES)
    found = evidence.delta(PREFIX_CACHE_HITS)
    if asked.value is None or found.value is None:
        return ok(name, f"not worked out: {asked.note or found.note or 'counters unknown'}")
    share = found.value / asked.value if asked.value else 0.0
    message = (
        f"{percent(share)} of the prompt tokens came from the prefix cache, "
        f"limit {percent(CACHED_SHARE)}"
    )
    return judged(name, share > CACHED_SHARE, message, share=share)


def server_queue(evidence: CellEvidence) -> Check:
    """The server worked on every request that was sent, and let none wait."""
    name, concurrency = "server_queue", evidence.cell.concurrency
    slots, waiting = _slots(evidence), evidence.gauges.get(REQUESTS_WAITING)
    parts, bad = [], False
    if slots is not None:
        parts.append(f"concurrency {concurrency}, the server runs at most {slots} requests")
        bad = concurrency > slots
    if waiting is not None:
        peak = WAITING_PEAK * concurrency
        parts.append(
            f"{waiting.mean:.2f} requests waiting on average, limit {WAITING_MEAN:g}; "
            f"at most {waiting.highest:.0f}, limit {peak:g}"
        )
        bad = bad or waiting.mean > WAITING_MEAN or waiting.highest > peak
    if not parts:
        return ok(name, "not worked out: neither waiting requests nor max_num_seqs are known")
    message = ("queued: " if bad else "") + "; ".join(parts)
    return judged(
        name,
        bad,
        message,
        slots=slots,
        mean=None if waiting is None else waiting.mean,
        highest=None if waiting is None else waiting.highest,
    )


def _slots(evidence: CellEvidence) -> int | None:
    """Requests that all engines run at once; the least of several attempts."""
    found = re.findall(r"\d+", evidence.settings.get(MAX_NUM_SEQS, ""))
    engines = evidence.settings.get(DATA_PARALLEL, "")
    factor = max(int(engines), 1) if engines.isdecimal() else 1
    return factor * min(map(int, found)) if found else None


def preemptions(evidence: CellEvidence) -> Check:
    """No request was thrown out of a full KV cache and computed again; the limit is 0, since one
    preemption repeats a whole prefill."""
    name, grown = "preemptions", evidence.delta(PREEMPTIONS)
    if grown.value is None:
        return ok(name, f"not worked out: {grown.note or 'the counter is not known'}")
    message = f"{grown.value:.0f} preemptions, limit 0"
    bad = grown.value > 0
    message += ": the KV cache was full" if bad else ""
    return judged(name, bad, message, preemptions=grown.value)


def synthetic_acceptance(evidence: CellEvidence) -> Check:
    """Drafts were accepted by the model, not by a rate that somebody chose; the limit is none.

    Looked for in the settings and in the command of the container.
    """
    name, command = "synthetic_acceptance", " ".join(evidence.server.container.command)
    settings = (f"{key} {value}" for key, value in evidence.settings.items())
    for place, texts in (("command", (command,)), ("settings", settings)):
        for text in texts:
            if found := _SYNTHETIC.search(text):
                message = f"the server's {place} say '{found[0]}', limit none: its text is no text"
                return refuse(name, Reason.CONFIGURATION_DIFFERS, message)
    known = "settings and command" if evidence.settings else "command"
    return ok(name, f"none in the server's {known}")


def gpu_throttle(evidence: CellEvidence) -> Check:
    """No GPU was slowed down by heat or power; the limit is 0 samples, since a slowed cell is
    compared with one that was not."""
    name, window = "gpu_throttle", evidence.window_ns
    if not evidence.telemetry:
        return ok(name, "no telemetry recorded")
    if window is None:
        return ok(name, "not worked out: no good request")
    first, last = window
    samples = [one for one in evidence.telemetry if first <= one.at_ns <= last]
    if not samples:
        return ok(name, f"none of {len(evidence.telemetry)} samples lies in the window")
    slowed = [one for one in samples if one.throttle & (POWER | THERMAL)]
    share = len(slowed) / len(samples)
    message = f"{len(slowed)} of {len(samples)} GPU samples throttled, {percent(share)}, limit 0"
    if not slowed:
        return ok(name, message, share=0.0)
    why = sorted(frozenset().union(*(one.throttle for one in slowed)) & (POWER | THERMAL))
    gpus = sorted({one.gpu for one in slowed})
    message += f": {', '.join(why)} on GPU {', '.join(map(str, gpus))}"
    return warn(name, message, share=share)

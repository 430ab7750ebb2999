"""Speed of a cell as it would come out with other rows: what intervals of ratios rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from runner.analysis.measured import MeasuredAttempt
from runner.analysis.resampling import RESAMPLES, Floats, resampled, row_sums

_SEED = 731_002


@dataclass(frozen=True)
class Replicates:
    """Resampled figures of one condition at one concurrency, RESAMPLES of each, over `rows` rows.

    `throughput` in tokens/s, `interactivity` in tokens/s per user, `ttft_ms` the mean.
    """

    throughput: Floats
    interactivity: Floats
    ttft_ms: Floats
    rows: int


def replicates(attempts: Sequence[MeasuredAttempt]) -> Replicates | None:
    """Replicates over rows of one cell, or over repeats and rows of several; None with too few
    rows.

    A window can't be drawn row by row, but in a closed loop it is the summed latency over the
    requests under way, which stay as they were: throughput = in flight x Σ tokens / Σ latency.
    Repeats are drawn first, then the rows, the same ones in each.
    """
    found = [one for one in (_of_cell(attempt) for attempt in attempts) if one is not None]
    if not found or len(found) < len(attempts):
        return None
    if len(found) == 1:
        return found[0]
    generator = np.random.default_rng((_SEED, len(found)))
    chosen = generator.integers(len(found), size=(len(found), RESAMPLES))
    places = np.arange(RESAMPLES)

    def mixed(values: Sequence[Floats]) -> Floats:
        stacked = np.stack(values)
        drawn: Floats = np.stack([stacked[one, places] for one in chosen])
        return np.asarray(drawn.mean(axis=0), dtype=np.float64)

    return Replicates(
        throughput=mixed([one.throughput for one in found]),
        interactivity=mixed([one.interactivity for one in found]),
        ttft_ms=mixed([one.ttft_ms for one in found]),
        rows=min(one.rows for one in found),
    )


def _of_cell(attempt: MeasuredAttempt) -> Replicates | None:
    columns = attempt.requests
    if not len(columns):
        return None
    tokens = np.asarray(columns.output_tokens, dtype=np.float64)
    latency = np.asarray(columns.latency_ms)
    first = np.asarray(columns.ttft_ms)
    spoken = (tokens >= 2) & np.isfinite(latency - first)
    gaps = np.where(spoken, (latency - first) / np.maximum(tokens - 1, 1), 0.0)
    timed = np.isfinite(latency)
    sums = row_sums(
        columns,
        [row.id for row in attempt.cell.rows],
        tokens,
        np.where(timed, latency, 0.0),
        gaps,
        spoken.astype(np.float64),
        np.where(np.isfinite(first), first, 0.0),
        np.isfinite(first).astype(np.float64),
        np.ones(len(columns)),
    )
    # a row that was not reached was not measured: it is none to draw from
    sums = sums[sums[:, -1] > 0]
    totals = resampled(sums)
    start, end = min(columns.start_ns), max(columns.end_ns)
    if totals is None or end <= start:
        return None
    in_flight = float(np.sum(latency[timed])) * 1e6 / (end - start)
    with np.errstate(divide="ignore", invalid="ignore"):
        return Replicates(
            throughput=in_flight * 1000 * totals[:, 0] / totals[:, 1],
            interactivity=1000 * totals[:, 3] / totals[:, 2],
            ttft_ms=totals[:, 4] / totals[:, 5],
            rows=len(sums),
        )

"""Throughput over a stated window, and latency where the stream can be believed."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from runner.analysis.records import RequestRecord
from runner.analysis.requests import ABSENT, RequestColumns

Floats = npt.NDArray[np.float64]

COALESCED_LIMIT = 0.05
"""Largest share of requests whose stream arrived in lumps."""
IN_LUMPS = "streams arrived in lumps"
READS_LIMIT = 0.5
"""A response with fewer socket reads per streamed piece than this arrived in lumps."""


@dataclass(frozen=True)
class Distribution:
    """Statistics over requests, in the unit of the values; percentiles are interpolated."""

    mean: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True)
class Interactivity:
    """Tokens per second that one user sees. `value` is None where it was refused, with why."""

    value: float | None
    refused_reason: str | None
    itl_ms: float | None = None
    requests: int = 0
    zero_itl: int = 0
    coalesced: int = 0


@dataclass(frozen=True)
class Speed:
    """Speed of the good requests of one cell. Times in ms, the window in s.

    `ttft_ms` is None where the stream was refused: a response that arrives in one piece makes the
    first token as late as the last.
    """

    requests: int
    output_tokens: int
    window_s: float
    output_token_throughput: float | None
    request_throughput: float | None
    latency_ms: Distribution | None
    ttft_ms: Distribution | None
    interactivity: Interactivity


@dataclass
class SpeedPool:
    """Running values over the requests of one cell (24 bytes per request)."""

    requests: int = 0
    output_tokens: int = 0
    first_start_ns: int | None = None
    last_end_ns: int | None = None
    zero_itl: int = 0
    coalesced: int = 0
    latencies: array[float] = field(default_factory=lambda: array("d"))
    ttfts: array[float] = field(default_factory=lambda: array("d"))
    itls: array[float] = field(default_factory=lambda: array("d"))

    def speed(self) -> Speed:
        """The figures of everything taken in so far."""
        window_s = self._window_s()
        interactivity = self._interactivity()
        believed = interactivity.refused_reason is None
        return Speed(
            requests=self.requests,
            output_tokens=self.output_tokens,
            window_s=window_s,
            output_token_throughput=self.output_tokens / window_s if window_s > 0 else None,
            request_throughput=self.requests / window_s if window_s > 0 else None,
            latency_ms=distribution(self.latencies),
            ttft_ms=distribution(self.ttfts) if believed else None,
            interactivity=interactivity,
        )

    def _window_s(self) -> float:
        if self.first_start_ns is None or self.last_end_ns is None:
            return 0.0
        return (self.last_end_ns - self.first_start_ns) / 1e9

    def _interactivity(self) -> Interactivity:
        count = len(self.itls)
        if not count:
            return Interactivity(None, "no request has a time between tokens")
        mean = math.fsum(self.itls) / count
        refused = None
        if self.coalesced > COALESCED_LIMIT * count:
            refused = (
                f"{IN_LUMPS}: {self.coalesced} of {count} requests "
                f"({self.zero_itl} with no time at all between tokens), "
                f"limit {100 * COALESCED_LIMIT:.0f} %"
            )
        return Interactivity(
            value=None if refused or mean <= 0 else 1000.0 / mean,
            refused_reason=refused,
            itl_ms=None if refused else mean,
            requests=count,
            zero_itl=self.zero_itl,
            coalesced=self.coalesced,
        )


def pool_columns(columns: RequestColumns) -> SpeedPool:
    """Running values of these requests."""
    if not len(columns):
        return SpeedPool()
    latency, ttft = np.asarray(columns.latency_ms), np.asarray(columns.ttft_ms)
    tokens = np.asarray(columns.output_tokens)
    timed = (tokens >= 2) & ~np.isnan(latency) & ~np.isnan(ttft)
    itls = (latency[timed] - ttft[timed]) / (tokens[timed] - 1)
    gaps, reads = (np.asarray(one)[timed] for one in (columns.gaps, columns.reads))
    lumps = (gaps > 0) & (reads != ABSENT) & (reads < READS_LIMIT * (gaps + 1))
    return SpeedPool(
        requests=len(columns),
        output_tokens=int(tokens.sum(dtype=np.int64)),
        first_start_ns=min(columns.start_ns),
        last_end_ns=max(columns.end_ns),
        zero_itl=int((itls <= 0).sum()),
        coalesced=int(((itls <= 0) | lumps).sum()),
        latencies=array("d", latency[~np.isnan(latency)].tobytes()),
        ttfts=array("d", ttft[~np.isnan(ttft)].tobytes()),
        itls=array("d", itls.tobytes()),
    )


def distribution(values: Sequence[float]) -> Distribution | None:
    """Statistics of these values; None when there are none."""
    if not values:
        return None
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    return Distribution(
        mean=math.fsum(ordered) / len(ordered),
        p50=percentile(ordered, 50),
        p90=percentile(ordered, 90),
        p99=percentile(ordered, 99),
    )


def percentile(ordered: Sequence[float] | Floats, percent: float) -> float:
    """Linear interpolation between the closest ranks of ascending, non-empty values."""
    rank = (len(ordered) - 1) * percent / 100
    below = math.floor(rank)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below] + (ordered[above] - ordered[below]) * (rank - below))


def speed(records: Iterable[RequestRecord]) -> Speed:
    """Speed of these records."""
    columns = RequestColumns()
    for record in records:
        columns.add(record)
    return pool_columns(columns).speed()

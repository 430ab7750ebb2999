"""What the rules look at: requests, acceptance, counters, gauges, settings, GPU samples."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import fsum, isfinite
from pathlib import Path

from runner.analysis.acceptance import AcceptancePool
from runner.analysis.prometheus import Delta, Known
from runner.analysis.requests import RequestColumns
from runner.models.plan import CellPlan, ServerPlan

SERVER_METRICS = "server_metrics_export.json"
PREEMPTIONS = "vllm:num_preemptions"
REQUESTS_WAITING = "vllm:num_requests_waiting"

POWER = frozenset({"sw_power_cap", "hw_power_brake"})
THERMAL = frozenset({"sw_thermal", "hw_thermal", "hw_slowdown"})
"""`hw_slowdown` is set with either kind of hardware slowdown; heat is the usual one."""

_SUMMED = "vllm:num_requests_"
# bits of NVML's clocksEventReasons (before driver 535: clocks_throttle_reasons)
_REASONS = {
    0x001: "gpu_idle",
    0x002: "application_clocks",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal",
    0x040: "hw_thermal",
    0x080: "hw_power_brake",
    0x100: "display_clocks",
}
_REASON_COLUMNS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")


@dataclass(frozen=True)
class Gauge:
    """A gauge over the measured part, as AIPerf scraped it (three times a second).

    `highest` adds the peaks of several engines, which need not have come at the same time.
    """

    mean: float
    highest: float


@dataclass(frozen=True)
class Telemetry:
    """One sample of one GPU. `at_ns` since the epoch; None is what the GPU does not tell."""

    at_ns: int
    gpu: int
    temperature_c: float | None
    sm_clock_mhz: float | None
    power_w: float | None
    throttle: frozenset[str]


@dataclass(frozen=True)
class CellEvidence:
    """One measured cell. What was not recorded is empty, and no rule fails on that.

    `settings` are the server's flat effective settings, `deltas` the growth of its counters.
    """

    cell: CellPlan
    server: ServerPlan
    requests: RequestColumns
    acceptance: AcceptancePool
    deltas: Mapping[str, Delta]
    gauges: Mapping[str, Gauge]
    settings: Mapping[str, str]
    telemetry: tuple[Telemetry, ...] = ()

    def delta(self, counter: str) -> Delta:
        """Growth of a counter; unknown where no scrape has it."""
        return self.deltas.get(counter, Delta(Known.UNKNOWN, note=f"{counter} was not scraped"))

    @property
    def window_ns(self) -> tuple[int, int] | None:
        """First start and last end of the good requests; None without any."""
        if not len(self.requests):
            return None
        return min(self.requests.start_ns), max(self.requests.end_ns)


def read_gauges(exports: Path) -> Mapping[str, Gauge]:
    """Gauges of AIPerf's server metrics by name; empty when the file is missing or broken.

    Counts of requests are summed over engines, of anything else the largest engine counts.
    """
    try:
        metrics = json.loads((exports / SERVER_METRICS).read_bytes())["metrics"]
        named = {name: metric for name, metric in metrics.items() if metric.get("type") == "gauge"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    gauges = {name: _gauge(name, metric.get("series")) for name, metric in named.items()}
    return {name: gauge for name, gauge in gauges.items() if gauge is not None}


def _gauge(name: str, series: object) -> Gauge | None:
    means, peaks = [], []
    for one in series if isinstance(series, list) else ():
        stats = one.get("stats") if isinstance(one, dict) else None
        mean, peak = (stats.get("avg"), stats.get("max")) if isinstance(stats, dict) else (0, None)
        if isinstance(mean, int | float) and isinstance(peak, int | float):
            means.append(float(mean))
            peaks.append(float(peak))
    if not means or not all(isfinite(value) for value in (*means, *peaks)):
        return None
    if name.startswith(_SUMMED):
        return Gauge(fsum(means), fsum(peaks))
    return Gauge(max(means), max(peaks))


def parse_telemetry(lines: Iterable[str]) -> tuple[Telemetry, ...]:
    """Samples in what `nvidia-smi --query-gpu=timestamp,index,… --format=csv` wrote.

    Columns are found by their headings: `timestamp` (read as UTC), `index`, `temperature.gpu`,
    `clocks.current.sm` or `clocks.sm`, `power.draw`, `clocks_event_reasons.active`. A row without
    time or index is left out. AIPerf's own telemetry is not read: it does not name reasons.
    """
    rows: list[Telemetry] = []
    headings: list[str] = []
    for cells in csv.reader(lines, skipinitialspace=True):
        words = [cell.strip() for cell in cells]
        if "index" in words:
            headings = [word.partition(" [")[0] for word in words]
        elif headings:
            sample = _sample(dict(zip(headings, words, strict=False)))
            rows += [sample] if sample is not None else []
    return tuple(rows)


def _sample(cells: Mapping[str, str]) -> Telemetry | None:
    at_ns, gpu = _nanoseconds(cells.get("timestamp", "")), cells.get("index", "")
    if at_ns is None or not gpu.isdecimal():
        return None
    clock = cells.get("clocks.current.sm") or cells.get("clocks.sm", "")
    return Telemetry(
        at_ns=at_ns,
        gpu=int(gpu),
        temperature_c=_number(cells.get("temperature.gpu", "")),
        sm_clock_mhz=_number(clock),
        power_w=_number(cells.get("power.draw", "")),
        throttle=_reasons(next((cells[name] for name in _REASON_COLUMNS if name in cells), "")),
    )


def _nanoseconds(text: str) -> int | None:
    try:
        moment = datetime.strptime(text, "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000


def _number(text: str) -> float | None:
    try:
        value = float(text.partition(" ")[0])
    except ValueError:
        return None
    return value if isfinite(value) else None


def _reasons(text: str) -> frozenset[str]:
    try:
        bits = int(text, 16)
    except ValueError:
        return frozenset()
    return frozenset(name for bit, name in _REASONS.items() if bits & bit)

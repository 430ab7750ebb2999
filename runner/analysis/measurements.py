"""Figures as tidy rows: metric, statistic, unit and a value or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, replace

from runner.analysis.acceptance import Acceptance, Bounded
from runner.analysis.interval import Interval
from runner.analysis.speed import Distribution, Speed

OVER_DRAFTED_STEPS = "pooled over drafted steps"
NOTHING_DRAFTED = "no decode step was drafted"
FROM_COUNTERS = "from the server's counters over the cell"
NOT_COUNTED = "a server's counters don't tell steps that had no draft"


@dataclass(frozen=True)
class Measurement:
    """One figure. Exactly one of `value` and `unavailable` is set.

    `position` counts draft positions from 1; `low` and `high` bound a value that is not exact,
    `interval` says how sure it is.
    """

    metric: str
    statistic: str
    unit: str
    value: float | int | None
    unavailable: str | None = None
    position: int | None = None
    low: float | None = None
    high: float | None = None
    interval: Interval | None = None


def acceptance_measurements(
    acceptance: Acceptance, *, from_counters: bool = False
) -> tuple[Measurement, ...]:
    """Every acceptance figure of one cell or one pool of cells.

    With `from_counters` each statistic says that it is the server's count, not the requests'.
    """
    if from_counters:
        return tuple(map(_counted, acceptance_measurements(acceptance)))
    why = _why_no_acceptance(acceptance)
    counts = (
        ("acceptance_requests", "count of good requests with figures", acceptance.requests),
        ("failed_requests", "count of failed and empty requests", acceptance.errors),
        ("missing_acceptance", "count of good requests without figures", acceptance.missing),
    )
    sums = (
        ("drafted_steps", "sum over requests", "steps", acceptance.steps),
        ("accepted_tokens", "sum over requests", "tokens", acceptance.accepted),
        ("drafted_tokens", "sum over requests", "tokens", acceptance.drafted),
    )
    return (
        _figure("acceptance_length", OVER_DRAFTED_STEPS, "tokens per step", acceptance.length, why),
        _figure(
            "draft_acceptance_rate", "pooled over drafted tokens", "fraction", acceptance.rate, why
        ),
        *_positions("position_acceptance", OVER_DRAFTED_STEPS, acceptance.positions),
        *_positions(
            "position_acceptance_conditional",
            "pooled over steps that accepted the position before",
            acceptance.conditional,
        ),
        _bounded("drafting_coverage", "fraction", acceptance.coverage, why),
        _bounded("tokens_per_step", "tokens per step", acceptance.tokens_per_step, why),
        *(Measurement(name, statistic, "requests", value) for name, statistic, value in counts),
        *(Measurement(name, statistic, unit, value) for name, statistic, unit, value in sums),
    )


def _counted(figure: Measurement) -> Measurement:
    """A figure that rests on counters; the counts of requests still come from the records."""
    if figure.unit == "requests":
        return figure
    unavailable = figure.unavailable and NOT_COUNTED
    return replace(
        figure, statistic=f"{figure.statistic}, {FROM_COUNTERS}", unavailable=unavailable
    )


def speed_measurements(speed: Speed) -> tuple[Measurement, ...]:
    """Every speed figure of one cell."""
    window = "good requests over the window from first start to last end"
    seen = speed.interactivity
    refused = seen.refused_reason
    no_window = "the window has no length"
    return (
        _figure(
            "output_token_throughput",
            window,
            "tokens/s",
            speed.output_token_throughput,
            no_window,
        ),
        _figure("request_throughput", window, "requests/s", speed.request_throughput, no_window),
        Measurement("output_tokens", "sum over good requests", "tokens", speed.output_tokens),
        Measurement("window", "first start to last end", "s", speed.window_s),
        _figure(
            "interactivity",
            "1000 / mean time between tokens over requests",
            "tokens/s per user",
            seen.value,
            refused,
        ),
        _figure("inter_token_latency", "mean over requests", "ms", seen.itl_ms, refused),
        *_distribution("request_latency", speed.latency_ms, "no request has a latency"),
        *_distribution("time_to_first_token", speed.ttft_ms, refused),
    )


def _why_no_acceptance(acceptance: Acceptance) -> str:
    if acceptance.requests:
        return NOTHING_DRAFTED
    return "no request carries acceptance figures"


def _figure(
    metric: str, statistic: str, unit: str, value: float | None, why: str | None
) -> Measurement:
    if value is None:
        return Measurement(metric, statistic, unit, None, why or "not recorded")
    return Measurement(metric, statistic, unit, value)


def _positions(
    metric: str, statistic: str, values: tuple[float | None, ...]
) -> tuple[Measurement, ...]:
    why = "no step accepted the position before"
    return tuple(
        Measurement(
            metric, statistic, "fraction", value, None if value is not None else why, position
        )
        for position, value in enumerate(values, start=1)
    )


def _bounded(metric: str, unit: str, bounded: Bounded | None, why: str) -> Measurement:
    if bounded is None:
        return Measurement(metric, "pooled over decode steps", unit, None, why)
    statistic = (
        "pooled over decode steps, as seen in the stream"
        if bounded.observed
        else "pooled over the most decode steps there can have been"
    )
    return Measurement(metric, statistic, unit, bounded.value, low=bounded.low, high=bounded.high)


def _distribution(
    metric: str, values: Distribution | None, why: str | None
) -> tuple[Measurement, ...]:
    if values is None:
        return (_figure(metric, "mean over requests", "ms", None, why),)
    return (
        Measurement(metric, "mean over requests", "ms", values.mean),
        Measurement(metric, "median over requests", "ms", values.p50),
        Measurement(metric, "90th percentile over requests", "ms", values.p90),
        Measurement(metric, "99th percentile over requests", "ms", values.p99),
    )

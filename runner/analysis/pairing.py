"""Throughput ratios, from matched pairs only: no pair, no ratio."""

from __future__ import annotations

from collections.abc import Iterable

from runner.analysis.measured import MeasuredAttempt
from runner.analysis.measurements import Measurement

METRIC = "throughput_ratio"
STATISTIC = "output token throughput / that of the baseline cell with equal axes"
THROUGHPUT = "output_token_throughput"

Axes = tuple[str, str, int, int]


def throughput_ratios(attempts: Iterable[MeasuredAttempt]) -> dict[str, Measurement]:
    """The ratio of every cell of a server that has a baseline, by cell id.

    A pair has equal prompts, concurrency and repeat, and both of its cells succeeded; else the
    measurement says why there is none.
    """
    by_axes: dict[Axes, MeasuredAttempt] = {}
    everything = list(attempts)
    for attempt in everything:
        axes = _axes(attempt, attempt.server.id)
        if axes not in by_axes or not by_axes[axes].included:
            by_axes[axes] = attempt
    return {
        attempt.cell.id: _ratio(attempt, by_axes)
        for attempt in by_axes.values()
        if attempt.server.baseline is not None
    }


def _axes(attempt: MeasuredAttempt, server: str) -> Axes:
    cell = attempt.cell
    return server, cell.prompts, cell.concurrency, cell.repeat


def _ratio(attempt: MeasuredAttempt, by_axes: dict[Axes, MeasuredAttempt]) -> Measurement:
    baseline = by_axes.get(_axes(attempt, attempt.server.baseline or ""))
    if baseline is None:
        return _none(
            f"no cell of {attempt.server.baseline} has the same prompts, concurrency and repeat"
        )
    for side in (attempt, baseline):
        if not side.included:
            return _none(f"cell {side.cell.id} is {side.status}: {side.message}")
    ours, theirs = attempt.figure(THROUGHPUT), baseline.figure(THROUGHPUT)
    if ours is None or theirs is None or ours.value is None or not theirs.value:
        return _none("a cell of the pair has no throughput")
    return Measurement(METRIC, STATISTIC, "ratio", ours.value / theirs.value)


def _none(why: str) -> Measurement:
    return Measurement(METRIC, STATISTIC, "ratio", None, why)

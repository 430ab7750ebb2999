"""Throughput ratios, from matched pairs only: no pair, no ratio."""

from __future__ import annotations

from runner.analysis.differences import server_differences
from runner.analysis.lengths import compare_lengths
from runner.analysis.measured import MeasuredAttempt, MeasuredRun
from runner.analysis.measurements import Measurement
from runner.models.result import Verdict

METRIC = "throughput_ratio"
STATISTIC = "output token throughput / that of the baseline cell with equal axes"
THROUGHPUT = "output_token_throughput"

Axes = tuple[str, str, int, int]


def throughput_ratios(run: MeasuredRun) -> dict[str, Measurement]:
    """The ratio of every cell of a server that has a baseline, by cell id.

    A pair has equal prompts, concurrency and repeat, both of its cells succeeded, and their
    servers differ in nothing but the drafter and what follows from it; else the measurement says
    why there is none.
    """
    by_axes: dict[Axes, MeasuredAttempt] = {}
    for attempt in run.attempts:
        axes = _axes(attempt, attempt.server.id)
        if axes not in by_axes or not by_axes[axes].included:
            by_axes[axes] = attempt
    found = server_differences(run)
    refused = {(item.server, item.baseline_server): item.not_comparable for item in found}
    ratios = {}
    for attempt in by_axes.values():
        baseline = run.baseline_of(attempt.server)
        if baseline is not None and attempt.cell.mode != "acceptance":
            why = refused.get((attempt.server.id, baseline))
            ratios[attempt.cell.id] = _ratio(attempt, baseline, by_axes, why)
    return ratios


def _axes(attempt: MeasuredAttempt, server: str) -> Axes:
    cell = attempt.cell
    return server, cell.prompts, cell.concurrency, cell.repeat


def _ratio(
    attempt: MeasuredAttempt,
    server: str,
    by_axes: dict[Axes, MeasuredAttempt],
    not_comparable: str | None,
) -> Measurement:
    baseline = by_axes.get(_axes(attempt, server))
    if baseline is None:
        return _none(f"no cell of {server} has the same prompts, concurrency and repeat")
    for side in (attempt, baseline):
        if not side.included:
            return _none(f"cell {side.cell.id} is {side.status}: {side.message}")
    if not_comparable is not None:
        return _none(not_comparable)
    lengths = compare_lengths([attempt], [baseline])
    if lengths.verdict is Verdict.REFUSE:
        return _none(lengths.message)
    ours, theirs = attempt.figure(THROUGHPUT), baseline.figure(THROUGHPUT)
    if ours is None or theirs is None or ours.value is None or not theirs.value:
        return _none("a cell of the pair has no throughput")
    return Measurement(METRIC, STATISTIC, "ratio", ours.value / theirs.value)


def _none(why: str) -> Measurement:
    return Measurement(METRIC, STATISTIC, "ratio", None, why)

"""Rules about cells together: how far repeats lie apart, and where a server queues."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runner.analysis.measured import MeasuredAttempt
from runner.analysis.validity.group_rules import queueing, repeat_spread
from runner.models.result import Check, Verdict

_MEDIAN = "median over requests"


@dataclass(frozen=True)
class GroupCheck:
    """What a rule says about several cells. `subject` names them for people."""

    subject: str
    check: Check
    paths: tuple[str, ...]


def judge_groups(attempts: Iterable[MeasuredAttempt]) -> tuple[GroupCheck, ...]:
    """Remarks on repeats of a cell and on the loads of a server; what is fine is left out."""
    included = [attempt for attempt in attempts if attempt.included]
    found = (*_spreads(included), *_queues(included))
    return tuple(one for one in found if one.check.verdict is not Verdict.OK)


def _spreads(attempts: Iterable[MeasuredAttempt]) -> Iterable[GroupCheck]:
    groups: dict[tuple[str, str, int], list[MeasuredAttempt]] = {}
    for one in attempts:
        key = one.server.configuration, one.cell.prompts, one.cell.concurrency
        groups.setdefault(key, []).append(one)
    for (configuration, prompts, concurrency), members in groups.items():
        figures = [one.figure("output_token_throughput") for one in members]
        values = [figure.value for figure in figures if figure is not None and figure.value]
        yield GroupCheck(
            f"{configuration} on {prompts} at {concurrency}",
            repeat_spread(values),
            tuple(one.path for one in members),
        )


def _queues(attempts: Iterable[MeasuredAttempt]) -> Iterable[GroupCheck]:
    groups: dict[tuple[str, str], dict[int, list[MeasuredAttempt]]] = {}
    for one in attempts:
        loads = groups.setdefault((one.server.configuration, one.cell.prompts), {})
        loads.setdefault(one.cell.concurrency, []).append(one)
    for (configuration, prompts), loads in groups.items():
        medians = {
            concurrency: sum(values) / len(values)
            for concurrency, members in loads.items()
            if (values := [value for one in members if (value := _median_ttft_ms(one))])
        }
        for concurrency, check in queueing(medians).items():
            yield GroupCheck(
                f"{configuration} on {prompts} at {concurrency}",
                check,
                tuple(one.path for one in loads[concurrency]),
            )


def _median_ttft_ms(attempt: MeasuredAttempt) -> float | None:
    return next(
        (
            figure.value
            for figure in attempt.speed
            if figure.metric == "time_to_first_token" and figure.statistic == _MEDIAN
        ),
        None,
    )

"""Two runs side by side: what changed from one to the other, for people and for CI.

Only like things are compared. The drafter may differ, as that is what the comparison is for;
anything else that differs is named, and keeps the two apart unless the user allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from runner.analysis.interval import Interval
from runner.analysis.measured import MeasuredAttempt, MeasuredRun
from runner.analysis.pooling import PooledAcceptance, pool_acceptance
from runner.analysis.replicates import Replicates, replicates
from runner.analysis.resampling import (
    Floats,
    acceptance_sums,
    middle,
    repeats_interval,
    resampled,
)
from runner.analysis.settings import SPECULATION, VARYING, told_settings
from runner.analysis.speedup import INTERACTIVITY, THROUGHPUT, Judgement, Ratio
from runner.models.layout import RunLayout
from runner.models.plan import Plan

DEFAULT_LIMIT = 0.05
"""A figure that fell by more than this share is a regression."""
LENGTH = "acceptance_length"
ABSENT = "–"  # noqa: RUF001 (an en dash is what a table shows for no value)


@dataclass(frozen=True)
class Unlike:
    """Something besides the drafter that differs between two runs; `key` allows it."""

    key: str
    before: str
    after: str


@dataclass(frozen=True)
class Change:
    """One figure of both runs. `ratio` is after / before with its interval.

    `concurrency` is None for a figure that is pooled over loads.
    """

    configuration: str
    prompts: str
    concurrency: int | None
    metric: str
    unit: str
    before: float
    after: float
    ratio: Ratio
    regression: bool
    before_paths: tuple[str, ...]
    after_paths: tuple[str, ...]


@dataclass(frozen=True)
class RunComparison:
    """What two runs have in common, and what is in one alone (by subject)."""

    changes: tuple[Change, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    allowed: tuple[Unlike, ...] = ()

    @property
    def regressions(self) -> tuple[Change, ...]:
        """Figures that fell beyond the limit."""
        return tuple(change for change in self.changes if change.regression)


def unlike(before: MeasuredRun, after: MeasuredRun) -> tuple[Unlike, ...]:
    """Everything besides the drafter in which the two runs differ."""
    first, second = ({**_identity(run.plan), **_effective(run)} for run in (before, after))
    return tuple(
        Unlike(key, first.get(key, ABSENT), second.get(key, ABSENT))
        for key in sorted(first.keys() & second.keys())
        if first[key] != second[key]
    )


def compare_runs(
    before: MeasuredRun,
    after: MeasuredRun,
    *,
    limit: float = DEFAULT_LIMIT,
    allowed: Collection[str] = (),
) -> RunComparison:
    """Acceptance length, throughput and interactivity that both runs have.

    Prompt sets, hosts and the like are not looked at here: see `unlike`.
    """
    changes = [*_acceptance(before, after, limit), *_speed(before, after, limit)]
    subjects = [
        {
            f"{one.server.configuration} on {one.cell.prompts} at {one.cell.concurrency}"
            for one in run.included
        }
        for run in (before, after)
    ]
    return RunComparison(
        changes=tuple(changes),
        only_before=tuple(sorted(subjects[0] - subjects[1])),
        only_after=tuple(sorted(subjects[1] - subjects[0])),
        allowed=tuple(one for one in unlike(before, after) if one.key in allowed),
    )


def _identity(plan: Plan) -> Mapping[str, str]:
    device = plan.host.accelerator
    found = {
        "host": plan.host.name,
        "accelerator": f"{device.count} {device.vendor} {device.model} {device.architecture}",
        "sampling": plan.sampling.model_dump_json(exclude_none=True),
    }
    for role, image in plan.images.items():
        if role != "supervisor":
            found[f"image.{role}"] = image.digest
    for role, checkpoint in plan.checkpoints.items():
        if role != "drafter":
            found[f"checkpoint.{role}"] = f"{checkpoint.name} at {checkpoint.revision}"
    for item in plan.prompts:
        found[f"prompts.{item.name}"] = item.sha256
    for cell in plan.cells:
        end = "fixed" if cell.ignore_eos else "natural"
        found[f"answers.{cell.prompts}"] = f"{cell.output_tokens} tokens at most, end {end}"
    for server in plan.servers:
        k = server.speculative.num_speculative_tokens if server.speculative else 0
        method = server.speculative.method if server.speculative else "no speculation"
        found[f"server.{server.configuration}"] = f"{method}, k = {k}"
        found[f"server.{server.configuration}.environment"] = " ".join(
            f"{name}={value}" for name, value in sorted(server.container.environment.items())
        )
        found[f"server.{server.configuration}.cpus"] = server.container.cpuset_cpus or "any"
        found[f"server.{server.configuration}.arguments"] = " ".join(
            _without_names(server.container.command)
        )
    return found


def _effective(run: MeasuredRun) -> Mapping[str, str]:
    """Settings that were in force on each server that is in the figures and told them; not its
    drafter, nor what varies from one start to the next."""
    found = {}
    starts = {
        (one.server.configuration, one.server.id, one.server_attempt)
        for one in run.included
        if one.server_attempt is not None
    }
    for configuration, server, number in sorted(starts):
        told = told_settings(run.root, [_LAYOUT.server(server, number or 1)]) or {}
        for key, value in told.items():
            if key != SPECULATION and key not in VARYING:
                found[f"settings.{configuration}.{key}"] = value
    return found


_LAYOUT = RunLayout(PurePosixPath())
_NAMING = frozenset({"--served-model-name", "--speculative-config"})


def _without_names(command: Sequence[str]) -> Iterator[str]:
    """Arguments without what names one run's server, or its drafter."""
    skip = False
    for argument in command:
        if skip:
            skip = False
        elif argument in _NAMING:
            skip = True
        else:
            yield argument


def _acceptance(before: MeasuredRun, after: MeasuredRun, limit: float) -> Iterator[Change]:
    ours = {_pool_key(pooled): pooled for pooled in pool_acceptance(after.attempts)}
    for theirs in pool_acceptance(before.attempts):
        mine = ours.get(_pool_key(theirs))
        if mine is None or mine.acceptance.length is None or theirs.acceptance.length is None:
            continue
        drawn = [_drawn_lengths(pooled) for pooled in (theirs, mine)]
        interval = None
        if drawn[0] is not None and drawn[1] is not None:
            interval = middle(drawn[1] / drawn[0], "bootstrap over rows")
        yield _change(
            (mine.configuration, mine.prompts, None),
            (LENGTH, "tokens per step"),
            (theirs.acceptance.length, mine.acceptance.length),
            interval,
            limit,
            (theirs.paths, mine.paths),
        )


def _pool_key(pooled: PooledAcceptance) -> tuple[str, str, bool]:
    return pooled.configuration, pooled.prompts, pooled.from_counters


def _drawn_lengths(pooled: PooledAcceptance) -> Floats | None:
    if pooled.from_counters:
        return None
    totals = resampled(
        acceptance_sums(
            (one.requests, [row.id for row in one.cell.rows]) for one in pooled.attempts
        )
    )
    return None if totals is None else totals[:, 1] / totals[:, 0]


def _speed(before: MeasuredRun, after: MeasuredRun, limit: float) -> Iterator[Change]:
    ours, theirs = _loads(after), _loads(before)
    for key in [one for one in theirs if one in ours]:
        sides = theirs[key], ours[key]
        drawn = [replicates(side) for side in sides]
        for metric, unit, column in _SPEED:
            values = [_values(side, metric) for side in sides]
            if not all(values):
                continue
            interval = repeats_interval(values[1], values[0])
            if interval is None and drawn[0] is not None and drawn[1] is not None:
                interval = middle(column(drawn[1]) / column(drawn[0]), "bootstrap over rows")
            yield _change(
                key,
                (metric, unit),
                (sum(values[0]) / len(values[0]), sum(values[1]) / len(values[1])),
                interval,
                limit,
                (tuple(one.path for one in sides[0]), tuple(one.path for one in sides[1])),
            )


_SPEED: tuple[tuple[str, str, Callable[[Replicates], Floats]], ...] = (
    (THROUGHPUT, "tokens/s", lambda one: one.throughput),
    (INTERACTIVITY, "tokens/s per user", lambda one: one.interactivity),
)

Load = tuple[str, str, int]


def _loads(run: MeasuredRun) -> Mapping[Load, Sequence[MeasuredAttempt]]:
    found: dict[Load, list[MeasuredAttempt]] = {}
    for one in run.included:
        if one.cell.mode != "acceptance":
            key = one.server.configuration, one.cell.prompts, one.cell.concurrency
            found.setdefault(key, []).append(one)
    return found


def _values(attempts: Iterable[MeasuredAttempt], metric: str) -> list[float]:
    """Values of every repeat; none where one of them has no figure."""
    figures = [attempt.figure(metric) for attempt in attempts]
    values = [float(figure.value) for figure in figures if figure is not None and figure.value]
    return values if len(values) == len(figures) else []


def _change(
    subject: tuple[str, str, int | None],
    metric: tuple[str, str],
    values: tuple[float, float],
    interval: Interval | None,
    limit: float,
    paths: tuple[tuple[str, ...], tuple[str, ...]],
) -> Change:
    ratio = Ratio(values[1] / values[0], interval)
    fell = values[1] / values[0] < 1 - limit
    return Change(
        *subject,
        *metric,
        before=values[0],
        after=values[1],
        ratio=ratio,
        regression=fell and ratio.judgement in (Judgement.BELOW, Judgement.NOT_KNOWN),
        before_paths=paths[0],
        after_paths=paths[1],
    )

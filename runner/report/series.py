"""What the plots draw, as plain data: a test reads it, matplotlib only paints it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runner.analysis.measured import MeasuredAttempt, MeasuredRun
from runner.analysis.pooling import PooledAcceptance


@dataclass(frozen=True)
class Point:
    """A value at one concurrency: mean over repeats, with the lowest and the highest."""

    concurrency: int
    value: float
    low: float
    high: float
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Line:
    """One configuration. `slot` picks its colour, the same in every plot; None is the baseline.

    `left_out` are concurrencies that were planned and have no value.
    """

    configuration: str
    slot: int | None
    points: tuple[Point, ...]
    left_out: tuple[int, ...]


@dataclass(frozen=True)
class Panel:
    """One prompt set."""

    prompts: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Curves:
    """A figure against concurrency, a panel for each prompt set."""

    title: str
    axis: str
    statistic: str
    panels: tuple[Panel, ...]
    absent: str = "left out"

    @property
    def empty(self) -> bool:
        """True when there is nothing to draw."""
        return not any(line.points for panel in self.panels for line in panel.lines)


@dataclass(frozen=True)
class Bar:
    """Pooled acceptance of one configuration on one prompt set; `positions` from 1."""

    prompts: str
    configuration: str
    slot: int | None
    length: float
    k: int
    coverage: float | None
    positions: tuple[float, ...]


def slots(run: MeasuredRun) -> dict[str, int | None]:
    """Colour slot of each configuration: baselines have none, the others count from 0."""
    result: dict[str, int | None] = {}
    count = 0
    for server in run.plan.servers:
        if server.configuration in result:
            continue
        if server.speculative is None and server.baseline is None:
            result[server.configuration] = None
        else:
            result[server.configuration] = count
            count += 1
    return result


def throughput_curves(run: MeasuredRun) -> Curves:
    """Output token throughput against concurrency."""
    return _curves(
        run,
        "output_token_throughput",
        title="Output token throughput",
        axis="output tokens per second",
        statistic="sum of output tokens / window from first start to last end",
    )


def interactivity_curves(run: MeasuredRun) -> Curves:
    """Accepted interactivity against concurrency; refused cells count as left out."""
    return _curves(
        run,
        "interactivity",
        title="Interactivity",
        axis="tokens per second and user",
        statistic="1000 / mean time between tokens (ms) over requests",
        absent="left out or refused",
    )


def acceptance_bars(run: MeasuredRun, pools: Iterable[PooledAcceptance]) -> tuple[Bar, ...]:
    """Pooled acceptance of every configuration and prompt set that drafted."""
    colours = slots(run)
    return tuple(
        Bar(
            prompts=pooled.prompts,
            configuration=pooled.configuration,
            slot=colours[pooled.configuration],
            length=pooled.acceptance.length,
            k=pooled.server.speculative.num_speculative_tokens,
            coverage=pooled.acceptance.coverage.value if pooled.acceptance.coverage else None,
            positions=pooled.acceptance.positions,
        )
        for pooled in pools
        if pooled.acceptance.length is not None and pooled.server.speculative is not None
    )


def _curves(
    run: MeasuredRun,
    metric: str,
    *,
    title: str,
    axis: str,
    statistic: str,
    absent: str = "left out",
) -> Curves:
    repeats = max((cell.repeat for cell in run.plan.cells), default=1)
    if repeats > 1:
        statistic += f"; mean of up to {repeats} repeats, bars from lowest to highest"
    # acceptance cells of an evaluation have one concurrency and nothing to compare with
    prompts = dict.fromkeys(cell.prompts for cell in run.plan.cells if cell.mode != "acceptance")
    panels = [
        Panel(
            prompts=name,
            lines=tuple(
                line
                for configuration, slot in slots(run).items()
                if (line := _line(run, metric, name, configuration, slot)) is not None
            ),
        )
        for name in prompts
    ]
    return Curves(title=title, axis=axis, statistic=statistic, panels=tuple(panels), absent=absent)


def _line(
    run: MeasuredRun, metric: str, prompts: str, configuration: str, slot: int | None
) -> Line | None:
    planned: dict[int, list[MeasuredAttempt]] = {}
    for attempt in run.attempts:
        if attempt.cell.prompts == prompts and attempt.server.configuration == configuration:
            planned.setdefault(attempt.cell.concurrency, []).append(attempt)
    if not planned:
        return None
    points = [
        point
        for concurrency, attempts in sorted(planned.items())
        if (point := _point(metric, concurrency, attempts)) is not None
    ]
    drawn = {point.concurrency for point in points}
    return Line(
        configuration=configuration,
        slot=slot,
        points=tuple(points),
        left_out=tuple(sorted(planned.keys() - drawn)),
    )


def _point(metric: str, concurrency: int, attempts: list[MeasuredAttempt]) -> Point | None:
    found = [
        (figure.value, attempt.path)
        for attempt in attempts
        if attempt.included
        and (figure := attempt.figure(metric)) is not None
        and figure.value is not None
    ]
    if not found:
        return None
    values = [value for value, _ in found]
    return Point(
        concurrency=concurrency,
        value=sum(values) / len(values),
        low=min(values),
        high=max(values),
        cells=tuple(path for _, path in found),
    )

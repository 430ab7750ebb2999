"""What the plots draw, as plain data: a test reads it, matplotlib only paints it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runner.analysis.measured import MeasuredAttempt, MeasuredRun
from runner.analysis.pooling import PooledAcceptance
from runner.analysis.speedup import Comparison
from runner.report.figures import by_metric


@dataclass(frozen=True)
class Point:
    """A value at one concurrency, with its range: of repeats, or the interval of a ratio."""

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
    """A figure against concurrency, a panel for each prompt set; `level` is a value to compare
    with."""

    title: str
    axis: str
    statistic: str
    panels: tuple[Panel, ...]
    absent: str = "left out"
    unit: str = "tokens/s"
    level: float | None = None

    @property
    def empty(self) -> bool:
        """True when there is nothing to draw."""
        return not any(line.points for panel in self.panels for line in panel.lines)


@dataclass(frozen=True)
class Bar:
    """Pooled acceptance of one configuration on one prompt set, or on one category of it (then
    `prompts` names both); `positions` from 1, `low` and `high` the 95 % interval of the length."""

    prompts: str
    configuration: str
    slot: int | None
    length: float
    k: int
    coverage: float | None
    positions: tuple[float, ...]
    low: float
    high: float
    cells: tuple[str, ...]


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
        unit="tokens/s per user",
    )


def ratio_curves(run: MeasuredRun, comparisons: Iterable[Comparison]) -> Curves:
    """Throughput ratios against concurrency with their intervals."""
    colours = slots(run)
    panels: dict[str, list[Line]] = {}
    for comparison in comparisons:
        points = tuple(
            Point(
                load.concurrency,
                load.throughput.value,
                load.throughput.interval.low if load.throughput.interval else load.throughput.value,
                load.throughput.interval.high
                if load.throughput.interval
                else load.throughput.value,
                load.paths,
            )
            for load in comparison.loads
            if load.throughput.value is not None
        )
        drawn = {point.concurrency for point in points}
        line = Line(
            configuration=comparison.name,
            slot=colours[comparison.name],
            points=points,
            left_out=tuple(
                load.concurrency for load in comparison.loads if load.concurrency not in drawn
            ),
        )
        panels.setdefault(comparison.prompts, []).append(line)
    return Curves(
        title="Throughput ratio",
        axis="throughput / baseline's",
        statistic="output token throughput / that of the baseline at equal concurrency; bars: 95 % "
        "interval",
        panels=tuple(Panel(name, tuple(lines)) for name, lines in panels.items()),
        absent="unavailable",
        unit="× baseline",  # noqa: RUF001
        level=1.0,
    )


def acceptance_bars(run: MeasuredRun, pools: Iterable[PooledAcceptance]) -> tuple[Bar, ...]:
    """Pooled acceptance of every configuration and prompt set that drafted."""
    colours = slots(run)
    bars = []
    for pooled in pools:
        length, speculative = pooled.acceptance.length, pooled.server.speculative
        if length is None or speculative is None:
            continue
        interval = by_metric(pooled.measurements)["acceptance_length"].interval
        bars.append(
            Bar(
                prompts=" · ".join(filter(None, (pooled.prompts, pooled.category))),
                configuration=pooled.configuration,
                slot=colours[pooled.configuration],
                length=length,
                k=speculative.num_speculative_tokens,
                coverage=pooled.acceptance.coverage.value if pooled.acceptance.coverage else None,
                positions=pooled.acceptance.positions,
                low=interval.low if interval else length,
                high=interval.high if interval else length,
                cells=pooled.paths,
            )
        )
    return tuple(bars)


def _curves(
    run: MeasuredRun,
    metric: str,
    *,
    title: str,
    axis: str,
    statistic: str,
    absent: str = "left out",
    unit: str = "tokens/s",
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
    return Curves(title, axis, statistic, tuple(panels), absent=absent, unit=unit)


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

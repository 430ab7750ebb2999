"""Throughput against interactivity: what a server gives to all and to each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import StrMethodFormatter

from runner.analysis.measured import MeasuredRun
from runner.analysis.tradeoff import CurvePoint, Tradeoff
from runner.report.drawn import Drawing, Points
from runner.report.figures import number, throughput
from runner.report.series import slots
from runner.report.style import (
    INK,
    LABEL_SIZE,
    MUTED,
    NOTE_SIZE,
    dress,
    head,
    legend,
    line_handle,
    new_figure,
    panel_grid,
    styled_line,
)

PANELS_A_ROW = 2
_WIDTH_IN = 5.2
_HEIGHT_IN = 3.7


@dataclass(frozen=True)
class TradeoffLine:
    """One condition: its measured points by rising concurrency."""

    configuration: str
    slot: int | None
    points: tuple[CurvePoint, ...]


def tradeoff_lines(
    run: MeasuredRun, tradeoffs: Iterable[Tradeoff]
) -> Mapping[str, tuple[TradeoffLine, ...]]:
    """Lines by prompt set, each condition and baseline once; sets without a point are left out."""
    colours = slots(run)
    found: dict[str, dict[str, TradeoffLine]] = {}
    for one in tradeoffs:
        comparison = one.comparison
        lines = found.setdefault(comparison.prompts, {})
        sides = (comparison.baseline, one.theirs), (comparison.server, one.ours)
        for server, points in sides:
            if points:
                name = server.configuration
                lines.setdefault(name, TradeoffLine(name, colours[name], points))
    return {name: tuple(lines.values()) for name, lines in found.items() if lines}


def draw_tradeoff(panels: Mapping[str, Sequence[TradeoffLine]]) -> Drawing:
    """A panel for each prompt set; each point is a concurrency, written beside it."""
    points = Points("tradeoff")
    columns = min(len(panels), PANELS_A_ROW)
    rows = math.ceil(len(panels) / columns)
    figure = new_figure(max(_WIDTH_IN * columns, 6.4), 1.1 + _HEIGHT_IN * rows)
    top = head(
        figure,
        "Throughput against interactivity",
        "x: 1000 / mean time between tokens (ms); y: sum of output tokens / window; "
        "number: concurrency",
    )
    slots_of = {line.configuration: line.slot for lines in panels.values() for line in lines}
    legend(figure, [line_handle(name, slot) for name, slot in slots_of.items()], top)
    grid = panel_grid(figure, rows, columns, len(panels))
    for index, (axes, (name, lines)) in enumerate(zip(grid, panels.items(), strict=True)):
        _panel(axes, name, lines, points)
        if index % columns == 0:
            axes.set_ylabel("output tokens per second", size=LABEL_SIZE, color=INK)
    return points.drawing(figure)


def _panel(axes: Axes, name: str, lines: Sequence[TradeoffLine], points: Points) -> None:
    dress(axes)
    axes.set_title(name, loc="left", size=LABEL_SIZE, weight="bold", color=INK)
    for line in lines:
        axes.add_line(
            styled_line(
                [point.interactivity for point in line.points],
                [point.throughput for point in line.points],
                line.configuration,
                line.slot,
            )
        )
        for point in line.points:
            axes.annotate(
                str(point.concurrency),
                (point.interactivity, point.throughput),
                xytext=(5, 5),
                textcoords="offset points",
                size=NOTE_SIZE - 1,
                color=MUTED,
            )
    for line in lines:
        for point in line.points:
            values = [
                ("concurrency", str(point.concurrency)),
                ("interactivity", f"{number(point.interactivity)} tokens/s per user"),
                ("throughput", f"{throughput(point.throughput)} tokens/s"),
            ]
            label = f"{line.configuration}, {name}"
            points.mark(axes, point.interactivity, point.throughput, label, values, point.paths)
    every = [point for line in lines for point in line.points]
    axes.set_xlim(0, max(point.interactivity for point in every) * 1.1)
    axes.set_ylim(0, max(point.throughput for point in every) * 1.12)
    axes.set_xlabel("interactivity (tokens per second and user)", size=LABEL_SIZE, color=INK)
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))

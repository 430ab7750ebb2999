"""Plots from plain data. Axes start at 0 and say statistic and unit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import StrMethodFormatter
from matplotlib.transforms import ScaledTranslation

from runner.report.drawn import Drawing, Points
from runner.report.figures import number, percent
from runner.report.series import Bar, Curves, Line, Panel
from runner.report.style import (
    GRID,
    INK,
    LABEL_SIZE,
    MUTED,
    NOTE_SIZE,
    colour,
    dress,
    head,
    legend,
    line_handle,
    new_figure,
    panel_grid,
    styled_line,
)

PANELS_A_ROW = 3
LINEAR_UP_TO = 8
_PANEL_WIDTH_IN = 4.4
_PANEL_HEIGHT_IN = 3.3
_HEAD_IN = 1.0
_BAR_IN = 0.42
_BARS_WIDTH_IN = 8.4
_LETTER_IN = 0.088
_CROSS_IN = 0.13


def draw_curves(curves: Curves, name: str = "curves") -> Drawing:
    """A panel for each prompt set, a line for each configuration, the baseline dashed."""
    points = Points(name)
    columns = min(len(curves.panels), PANELS_A_ROW)
    rows = math.ceil(len(curves.panels) / columns)
    figure = new_figure(
        max(_PANEL_WIDTH_IN * columns, 6.4), _HEAD_IN + 0.1 + _PANEL_HEIGHT_IN * rows
    )
    top = head(figure, curves.title, curves.statistic)
    handles = _handles(curves)
    legend(figure, handles, top)
    grid = panel_grid(figure, rows, columns, len(curves.panels))
    for index, (axes, panel) in enumerate(zip(grid, curves.panels, strict=True)):
        _draw_panel(figure, axes, panel, curves, points)
        if index % columns == 0:
            axes.set_ylabel(curves.axis, size=LABEL_SIZE, color=INK)
    return points.drawing(figure)


def _draw_panel(figure: Figure, axes: Axes, panel: Panel, curves: Curves, points: Points) -> None:
    dress(axes)
    axes.set_title(panel.prompts, loc="left", size=LABEL_SIZE, weight="bold", color=INK)
    ticks = sorted(
        {point.concurrency for line in panel.lines for point in line.points}
        | {concurrency for line in panel.lines for concurrency in line.left_out}
    )
    place = _places(ticks)
    for line in panel.lines:
        _draw_line(axes, line, place)
    if curves.level is not None:
        axes.axhline(curves.level, color=INK, linewidth=1.0, zorder=1.5)
    for line in panel.lines:
        _mark_line(axes, panel, line, place, curves, points)
    _draw_left_out(axes, figure, panel, place)
    axes.set_xticks([place[tick] for tick in ticks], [str(tick) for tick in ticks])
    last = max(place.values(), default=1.0)
    axes.set_xlim(0, last * 1.08)
    # prompt sets differ by more than an order of magnitude: each has a scale of its own
    highest = max((point.high for line in panel.lines for point in line.points), default=1.0)
    axes.set_ylim(0, highest * 1.12)
    scale = "" if _linear(ticks) else ", log scale"
    axes.set_xlabel(f"concurrency (requests in flight{scale})", size=LABEL_SIZE, color=INK)
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}" if highest > 10 else "{x:.3g}"))


def _places(ticks: Sequence[int]) -> dict[int, float]:
    """Linear while the values are few and small, else one step for each doubling."""
    if _linear(ticks):
        return {tick: float(tick) for tick in ticks}
    return {tick: 1.0 + math.log2(tick) for tick in ticks}


def _linear(ticks: Sequence[int]) -> bool:
    return not ticks or ticks[-1] <= LINEAR_UP_TO


def _draw_line(axes: Axes, line: Line, place: dict[int, float]) -> None:
    paint = colour(line.slot)
    xs = [place[point.concurrency] for point in line.points]
    values = [point.value for point in line.points]
    axes.add_line(styled_line(xs, values, line.configuration, line.slot))
    for x, point in zip(xs, line.points, strict=True):
        if point.high > point.low:
            axes.vlines(x, point.low, point.high, color=paint, linewidth=1.4, zorder=2)


def _mark_line(
    axes: Axes,
    panel: Panel,
    line: Line,
    place: dict[int, float],
    curves: Curves,
    points: Points,
) -> None:
    for point in line.points:
        values = [
            ("concurrency", str(point.concurrency)),
            (curves.title.lower(), f"{number(point.value)} {curves.unit}"),
        ]
        if point.high > point.low:
            values.append(("range", f"{number(point.low)} to {number(point.high)}"))
        label = f"{line.configuration}, {panel.prompts}"
        points.mark(axes, place[point.concurrency], point.value, label, values, point.cells)


def _draw_left_out(axes: Axes, figure: Figure, panel: Panel, place: dict[int, float]) -> None:
    """Crosses on the axis, side by side where several configurations have no value."""
    for concurrency, x in place.items():
        missing = [line for line in panel.lines if concurrency in line.left_out]
        for index, line in enumerate(missing):
            shift_in = (index - (len(missing) - 1) / 2) * _CROSS_IN
            axes.plot(
                [x],
                [0.0],
                linestyle="none",
                marker="x",
                markersize=7,
                markeredgewidth=1.8,
                color=colour(line.slot),
                clip_on=False,
                zorder=4,
                transform=axes.transData + ScaledTranslation(shift_in, 0, figure.dpi_scale_trans),
            )


def _handles(curves: Curves) -> list[Line2D]:
    lines = {line.configuration: line for panel in curves.panels for line in panel.lines}
    handles = [line_handle(line.configuration, line.slot) for line in lines.values()]
    if any(line.left_out for panel in curves.panels for line in panel.lines):
        handles.append(
            Line2D(
                [], [], color=MUTED, linestyle="none", marker="x", markersize=7, label=curves.absent
            )
        )
    return handles


def draw_acceptance(
    bars: Sequence[Bar], name: str = "acceptance", title: str = "Acceptance length"
) -> Drawing:
    """A bar for each configuration, grouped by prompt set, with the most it could reach."""
    points = Points(name)
    groups = list(dict.fromkeys(bar.prompts for bar in bars))
    figure = new_figure(_BARS_WIDTH_IN, 1.7 + _BAR_IN * len(bars) + 0.36 * len(groups))
    head(
        figure,
        title,
        "1 + accepted drafts / drafted steps, pooled over requests; line: 95 % interval over rows; "
        "mark: the ceiling k + 1",
    )
    height = float(figure.get_figheight())
    left = (0.35 + _LETTER_IN * max(len(bar.configuration) for bar in bars)) / _BARS_WIDTH_IN
    axes = figure.add_axes((left, 0.55 / height, 0.77 - left, 1 - 1.4 / height))
    dress(axes)
    axes.grid(False, axis="y")
    ceiling = max(bar.k + 1 for bar in bars)
    row, labels = 0.0, []
    for group in groups:
        axes.text(0, row - 0.12, group, size=LABEL_SIZE, weight="bold", color=INK, va="center")
        row += 0.85
        for bar in (bar for bar in bars if bar.prompts == group):
            _draw_bar(axes, bar, row, ceiling, points)
            labels.append((row, bar.configuration))
            row += 1.0
        row += 0.15
    axes.set_yticks([place for place, _ in labels], [name for _, name in labels])
    axes.tick_params(axis="y", length=0, labelsize=LABEL_SIZE)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(row - 0.3, -0.6)
    axes.set_xlim(0, ceiling * 1.02)
    axes.set_xticks(range(ceiling + 1))
    axes.set_xlabel("tokens per drafted step", size=LABEL_SIZE, color=INK)
    return points.drawing(figure)


def _draw_bar(axes: Axes, bar: Bar, row: float, ceiling: int, points: Points) -> None:
    axes.barh(row, bar.k + 1, height=0.62, color=GRID, zorder=2)
    axes.barh(row, bar.length, height=0.62, color=colour(bar.slot), zorder=3)
    axes.vlines(bar.k + 1, row - 0.40, row + 0.40, color=INK, linewidth=1.6, zorder=4)
    values = [("acceptance length", f"{bar.length:.2f} of {bar.k + 1}")]
    if bar.high > bar.low:
        axes.hlines(row, bar.low, bar.high, color=INK, linewidth=1.4, zorder=5)
        values.append(("95 % interval", f"{bar.low:.2f} to {bar.high:.2f}"))
    if bar.coverage is not None:
        values.append(("coverage", percent(bar.coverage)))
    points.mark(axes, bar.length, row, f"{bar.configuration}, {bar.prompts}", values, bar.cells)
    text = f"{bar.length:.2f} of {bar.k + 1}"
    if bar.coverage is not None and bar.coverage < 1:
        text += f"\ndrafted in {100 * bar.coverage:.0f} % of steps"
    axes.annotate(
        text,
        xy=(ceiling * 1.02, row),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        size=NOTE_SIZE,
        color=INK,
        annotation_clip=False,
    )


def draw_positions(bars: Sequence[Bar]) -> Drawing:
    """Share of drafted steps that accepted each draft position, a panel for each prompt set."""
    points = Points("positions")
    bars = [bar for bar in bars if bar.positions]
    groups = list(dict.fromkeys(bar.prompts for bar in bars))
    columns = min(len(groups), PANELS_A_ROW)
    rows = math.ceil(len(groups) / columns)
    figure = new_figure(
        max(_PANEL_WIDTH_IN * columns, 6.4), _HEAD_IN + 0.1 + _PANEL_HEIGHT_IN * rows
    )
    top = head(
        figure,
        "Acceptance by draft position",
        "share of drafted steps that accepted this position, pooled over requests",
    )
    slots = {bar.configuration: bar.slot for bar in bars}
    legend(figure, [line_handle(name, slot) for name, slot in slots.items()], top)
    grid = panel_grid(figure, rows, columns, len(groups))
    for index, (axes, group) in enumerate(zip(grid, groups, strict=True)):
        _draw_positions_panel(axes, group, [bar for bar in bars if bar.prompts == group], points)
        if index % columns == 0:
            axes.set_ylabel("share of drafted steps", size=LABEL_SIZE, color=INK)
    return points.drawing(figure)


def _draw_positions_panel(axes: Axes, group: str, bars: Sequence[Bar], points: Points) -> None:
    dress(axes)
    axes.set_title(group, loc="left", size=LABEL_SIZE, weight="bold", color=INK)
    last = 1
    for bar in bars:
        last = max(last, len(bar.positions))
        places = list(range(1, len(bar.positions) + 1))
        axes.add_line(styled_line(places, bar.positions, bar.configuration, bar.slot))
    for bar in bars:
        for position, share in enumerate(bar.positions, 1):
            values = [("position", str(position)), ("accepted", percent(share))]
            label = f"{bar.configuration}, {group}"
            points.mark(axes, position, share, label, values, bar.cells)
    axes.set_xlim(0.6, last + 0.4)
    axes.set_xticks(range(1, last + 1))
    axes.set_ylim(0, 1.05)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axes.set_xlabel("draft position", size=LABEL_SIZE, color=INK)

"""Acceptance and net speed-up as prompts grow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from runner.analysis.long_context import BinFigures, LongContext
from runner.analysis.measured import MeasuredRun
from runner.report.drawn import Drawing, Points
from runner.report.figures import number
from runner.report.series import slots
from runner.report.style import (
    INK,
    LABEL_SIZE,
    dress,
    head,
    legend,
    line_handle,
    new_figure,
    panel_grid,
    styled_line,
)

Value = Callable[[BinFigures], float | None]

PANELS_A_ROW = 2
_WIDTH_IN = 5.2
_HEIGHT_IN = 3.7


@dataclass(frozen=True)
class ContextLine:
    """One configuration in one panel, its bins by rising length."""

    configuration: str
    slot: int | None
    bins: tuple[BinFigures, ...]


@dataclass(frozen=True)
class ContextPanel:
    """One figure of one dataset; net speed-up at one concurrency."""

    title: str
    axis: str
    value: Value
    lines: tuple[ContextLine, ...]


def context_panels(run: MeasuredRun, found: Iterable[LongContext]) -> tuple[ContextPanel, ...]:
    """Acceptance length of each dataset, then net speed-up at each concurrency; a panel without a
    value is left out. Acceptance is that of the first set and load that a configuration ran."""
    colours = slots(run)
    panels: dict[tuple[str, str], dict[str, ContextLine]] = {}
    for one in found:
        line = ContextLine(one.configuration, colours[one.configuration], one.bins)
        if any(_length(item) for item in one.bins):
            length = panels.setdefault((f"Acceptance length, {one.dataset}", "length"), {})
            length.setdefault(one.configuration, line)
        if any(item.speedup.value for item in one.bins):
            title = f"Net speed-up, {one.dataset}, concurrency {one.concurrency}"
            panels.setdefault((title, "speedup"), {}).setdefault(one.configuration, line)
    axes = {
        "length": ("tokens per step", _length),
        "speedup": ("latency of baseline / latency", _speedup),
    }
    ordered = sorted(panels.items(), key=lambda item: item[0][1] == "speedup")
    return tuple(
        ContextPanel(title, *axes[kind], lines=tuple(lines.values()))
        for (title, kind), lines in ordered
    )


def draw_context(panels: Sequence[ContextPanel]) -> Drawing:
    """Acceptance length by bin of prompt length, and net speed-up where there is one."""
    points = Points("long_context")
    columns = min(len(panels), PANELS_A_ROW)
    rows = math.ceil(len(panels) / columns)
    figure = new_figure(max(_WIDTH_IN * columns, 6.8), 1.1 + _HEIGHT_IN * rows)
    top = head(
        figure,
        "Long context",
        "by prompt length; acceptance pooled over requests, net speed-up over rows of both sides",
    )
    of = {line.configuration: line.slot for panel in panels for line in panel.lines}
    legend(figure, [line_handle(name, slot) for name, slot in of.items()], top)
    grid = panel_grid(figure, rows, columns, len(panels))
    for axes, panel in zip(grid, panels, strict=True):
        _panel(axes, panel, points)
    return points.drawing(figure)


def _panel(axes: Axes, panel: ContextPanel, points: Points) -> None:
    dress(axes)
    axes.set_title(panel.title, loc="left", size=LABEL_SIZE, weight="bold", color=INK)
    bins = list(dict.fromkeys(item.bin for line in panel.lines for item in line.bins))
    highest = 1.0
    for line in panel.lines:
        known = [(bins.index(item.bin), found, item) for item in line.bins
                 if (found := panel.value(item)) is not None]  # fmt: skip
        xs, ys = [x for x, _, _ in known], [y for _, y, _ in known]
        axes.add_line(styled_line(xs, ys, line.configuration, line.slot))
        highest = max([highest, *ys])
        for x, y, item in known:
            values = [("prompt tokens", item.bin), (panel.title.split(",")[0].lower(), number(y))]
            values.append(("requests", f"{item.good} good, {item.failed} failed"))
            points.mark(axes, x, y, line.configuration, values, item.paths)
    axes.set_xticks(range(len(bins)), list(bins))
    axes.set_xlim(-0.5, len(bins) - 0.5)
    axes.set_ylim(0, highest * 1.12)
    axes.set_xlabel("prompt tokens", size=LABEL_SIZE, color=INK)
    axes.set_ylabel(panel.axis, size=LABEL_SIZE, color=INK)


def _length(item: BinFigures) -> float | None:
    return item.acceptance.length if item.acceptance else None


def _speedup(item: BinFigures) -> float | None:
    return item.speedup.value

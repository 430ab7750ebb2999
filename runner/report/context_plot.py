"""Acceptance and net speed-up as prompts grow."""

from __future__ import annotations

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
    colour,
    dress,
    head,
    legend,
    line_handle,
    marker,
    new_figure,
    panel_grid,
)

Value = Callable[[BinFigures], float | None]


@dataclass(frozen=True)
class ContextLine:
    """One configuration on one prompt set, its bins by rising length."""

    label: str
    slot: int | None
    bins: tuple[BinFigures, ...]


def context_lines(run: MeasuredRun, found: Iterable[LongContext]) -> tuple[ContextLine, ...]:
    """Configurations that have a figure in some bin."""
    colours = slots(run)
    return tuple(
        ContextLine(
            f"{one.configuration}, {one.prompts}, concurrency {one.concurrency}",
            colours[one.configuration],
            one.bins,
        )
        for one in found
        if any(_length(item) or item.speedup.value for item in one.bins)
    )


def draw_context(lines: Sequence[ContextLine]) -> Drawing:
    """Acceptance length by bin of prompt length, and net speed-up where there is one."""
    points = Points("long_context")
    panels: list[tuple[str, str, Value]] = [("Acceptance length", "tokens per step", _length)]
    if any(item.speedup.value for line in lines for item in line.bins):
        panels.append(("Net speed-up", "latency of baseline / latency", _speedup))
    figure = new_figure(5.0 * len(panels) + 1.4, 4.6)
    top = head(
        figure,
        "Long context",
        "by rendered prompt length; acceptance pooled over requests, speed-up over rows good on "
        "both sides",
    )
    legend(figure, [line_handle(line.label, line.slot) for line in lines], top)
    bins = list(dict.fromkeys(item.bin for line in lines for item in line.bins))
    for axes, (title, axis, value) in zip(
        panel_grid(figure, 1, len(panels), len(panels)), panels, strict=True
    ):
        _panel(axes, title, lines, bins, value, points)
        axes.set_ylabel(axis, size=LABEL_SIZE, color=INK)
    return points.drawing(figure)


def _panel(
    axes: Axes,
    title: str,
    lines: Sequence[ContextLine],
    bins: Sequence[str],
    value: Value,
    points: Points,
) -> None:
    dress(axes)
    axes.set_title(title, loc="left", size=LABEL_SIZE, weight="bold", color=INK)
    highest = 1.0
    for line in lines:
        known = [(bins.index(item.bin), found, item) for item in line.bins
                 if (found := value(item)) is not None]  # fmt: skip
        axes.plot(
            [x for x, _, _ in known],
            [y for _, y, _ in known],
            color=colour(line.slot),
            linewidth=2.0,
            marker=marker(line.slot),
            markersize=6,
            zorder=3,
        )
        highest = max([highest, *(y for _, y, _ in known)])
        for x, y, item in known:
            values = [("prompt tokens", item.bin), (title.lower(), number(y))]
            values.append(("requests", f"{item.good} good, {item.failed} failed"))
            points.mark(axes, x, y, line.label, values, item.paths)
    axes.set_xticks(range(len(bins)), list(bins))
    axes.set_xlim(-0.5, len(bins) - 0.5)
    axes.set_ylim(0, highest * 1.12)
    axes.set_xlabel("prompt tokens", size=LABEL_SIZE, color=INK)


def _length(item: BinFigures) -> float | None:
    return item.acceptance.length if item.acceptance else None


def _speedup(item: BinFigures) -> float | None:
    return item.speedup.value

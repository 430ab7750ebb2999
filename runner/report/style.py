"""How every plot looks: palette, fonts, grid."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

BASELINE = "#5b6470"
INK = "#1f2933"
MUTED = "#66707c"
GRID = "#e3e7eb"
# told apart by people with colour vision deficiencies; markers differ as well
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#b0508e", "#c79a00", "#3aa5d8", "#7a4b2b", "#4b5fa8")
MARKERS = ("o", "D", "^", "v", "P", "X", "<", ">")
DPI = 160
TITLE_SIZE = 14
LABEL_SIZE = 10
NOTE_SIZE = 9


def colour(slot: int | None) -> str:
    """Colour of a configuration's slot."""
    return BASELINE if slot is None else PALETTE[slot % len(PALETTE)]


def marker(slot: int | None) -> str:
    """Marker of a configuration's slot."""
    return "s" if slot is None else MARKERS[slot % len(MARKERS)]


def new_figure(width_in: float, height_in: float) -> Figure:
    """A figure of its own: nothing of pyplot's process-wide state is touched."""
    figure = Figure(figsize=(width_in, height_in), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def dress(axes: Axes) -> None:
    """Light grid behind the data, no box."""
    axes.set_axisbelow(True)
    axes.grid(True, color=GRID, linewidth=0.8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(MUTED)
        axes.spines[side].set_linewidth(0.8)
    axes.tick_params(colors=INK, labelsize=NOTE_SIZE, width=0.8, length=3)


def head(figure: Figure, title: str, statistic: str) -> float:
    """Title and statistic at the top left; returns where the plots may begin, from below."""
    height = float(figure.get_figheight())
    left = 0.15 / float(figure.get_figwidth())
    figure.text(left, 1 - 0.12 / height, title, size=TITLE_SIZE, weight="bold", color=INK, va="top")
    figure.text(left, 1 - 0.42 / height, statistic, size=NOTE_SIZE, color=MUTED, va="top")
    return 1 - 0.68 / height


def panel_grid(figure: Figure, rows: int, columns: int, panels: int) -> list[Axes]:
    """Axes of so many panels below the head, row by row."""
    height = float(figure.get_figheight())
    layout = figure.add_gridspec(
        rows,
        columns,
        left=0.72 / float(figure.get_figwidth()),
        right=1 - 0.25 / float(figure.get_figwidth()),
        top=1 - 1.28 / height,
        bottom=0.55 / height,
        wspace=0.2,
        hspace=0.38,
    )
    return [
        figure.add_subplot(layout[index // columns, index % columns]) for index in range(panels)
    ]


def styled_line(xs: Sequence[float], ys: Sequence[float], label: str, slot: int | None) -> Line2D:
    """A configuration's line with a mark at each point."""
    paint = colour(slot)
    return Line2D(
        xs,
        ys,
        color=paint,
        linewidth=2.0,
        linestyle="--" if slot is None else "-",
        marker=marker(slot),
        markersize=6,
        markerfacecolor="white" if slot is None else paint,
        markeredgewidth=1.6,
        label=label,
        clip_on=False,
        zorder=3,
    )


def line_handle(label: str, slot: int | None) -> Line2D:
    """How a configuration's line looks in a legend."""
    return styled_line([], [], label, slot)


def legend(figure: Figure, handles: list[Line2D], top: float) -> None:
    """A legend in one row under the head."""
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.08 / float(figure.get_figwidth()), top),
        ncols=min(len(handles), 6),
        frameon=False,
        fontsize=NOTE_SIZE,
        labelcolor=INK,
        handlelength=2.6,
        columnspacing=1.6,
    )

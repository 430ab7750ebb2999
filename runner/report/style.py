"""How every plot looks: palette, fonts, grid."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

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

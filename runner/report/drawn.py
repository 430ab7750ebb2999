"""A plot as it was drawn: the figure, and what each of its points stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

_HIT_SIZE = 13


@dataclass(frozen=True)
class DrawnPoint:
    """One point of a plot. `gid` is the id of its group in the SVG, `values` are name and value as
    they are read, `path` is the folder of its raw cell, or empty."""

    gid: str
    label: str
    values: tuple[tuple[str, str], ...]
    path: str = ""


@dataclass(frozen=True)
class Drawing:
    """A figure and its points."""

    figure: Figure
    points: tuple[DrawnPoint, ...]


class Points:
    """Collects the points of one plot while it is drawn."""

    def __init__(self, name: str):
        self._name = name
        self._found: list[DrawnPoint] = []

    def mark(
        self,
        axes: Axes,
        x: float,
        y: float,
        label: str,
        values: Sequence[tuple[str, str]],
        paths: Sequence[str] = (),
    ) -> None:
        """An invisible mark over a point, large enough to hit, that a page can ask for."""
        gid = f"{self._name}-{len(self._found)}"
        axes.plot(
            [x],
            [y],
            linestyle="none",
            marker="o",
            markersize=_HIT_SIZE,
            alpha=0,
            gid=gid,
            clip_on=False,
            zorder=9,
            label="_hit",
        )
        path = paths[0] if len(paths) == 1 else ""
        self._found.append(DrawnPoint(gid, label, tuple(values), path))

    def drawing(self, figure: Figure) -> Drawing:
        """The figure with everything that was marked."""
        return Drawing(figure, tuple(self._found))

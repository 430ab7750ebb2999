"""Data on stdout, talk on stderr. The only place that knows how a terminal looks."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

TABLE_WIDTH = 100

_STYLES = {
    "SUCCEEDED": "green",
    "RUNNING": "cyan",
    "PENDING": "dim",
    "STOPPED": "yellow",
    "UNAVAILABLE": "dim",
    "FAILED": "red",
    "LOST": "red",
    "error": "red",
    "warning": "yellow",
    "ok": "green",
}


def say(text: str) -> None:
    """One message for the person at the terminal. A stderr that is gone is no reason to fail."""
    try:
        print(text, file=sys.stderr, flush=True)
    except (BrokenPipeError, ValueError):
        return


def emit(text: str) -> None:
    """One line of data."""
    print(text, flush=True)


def emit_json(data: Any) -> None:
    """Data as JSON; NaN and infinity are refused, for other readers refuse them."""
    print(json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False), flush=True)


def emit_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table of at most 100 columns; long cells go on in the next line. None is left empty."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold", header_style="bold")
    for row in rows:
        cells = ["" if cell is None else str(cell) for cell in row]
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in cells))
    data_console().print(table)


def data_console() -> Console:
    """Console on stdout, as wide as the terminal and at most 100."""
    from rich.console import Console

    class Data(Console):
        def on_broken_pipe(self) -> None:
            # rich would end the program with exit code 1, which says that a run failed
            raise BrokenPipeError

    return Data(file=sys.stdout, width=_width(), highlight=False, markup=False)


def talk_console() -> Console:
    """Console on stderr, for progress."""
    from rich.console import Console

    return Console(file=sys.stderr, highlight=False, markup=False)


def _width() -> int:
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return TABLE_WIDTH
    return min(TABLE_WIDTH, shutil.get_terminal_size((TABLE_WIDTH, 24)).columns)


def human_time(seconds: float) -> str:
    """A duration in at most two units: 42s, 3m05s, 2h07m."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def human_bytes(size: float | None) -> str:
    """A size in a binary unit: 512 B, 1.5 GiB; empty for None."""
    if size is None:
        return ""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"

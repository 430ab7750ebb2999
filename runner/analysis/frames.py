"""A measured run as tidy pandas frames: one observation a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import pandas as pd

from runner.analysis.conclusions import Conclusions
from runner.analysis.measured import MeasuredAttempt
from runner.analysis.measurements import Measurement

_AXES = ["configuration", "prompts", "concurrency", "repeat", "cell", "attempt"]
_FIGURE = [
    *("metric", "position", "statistic", "unit", "value", "low", "high"),
    *("interval_low", "interval_high", "interval_method", "unavailable"),
]
_COUNTS = ["planned", "recorded", "good", "errors", "cancelled", "empty", "torn_lines"]

CELL_COLUMNS = [
    *_AXES,
    *("server", "method", "num_speculative_tokens", "status", "reason", "message", "included"),
    *_COUNTS,
    *("warnings", "path"),
]
FIGURE_COLUMNS = [*_AXES, *_FIGURE, "path"]
POOLED_COLUMNS = ["configuration", "prompts", *_FIGURE, "paths"]


@dataclass(frozen=True)
class RunFrames:
    """Frames of one run.

    `cells` has a row for every attempt, failed ones too. `acceptance` and `speed` hold figures of
    the included attempts in long form, `acceptance_pooled` those per configuration and prompt
    set. A figure that does not exist has no value and a text in `unavailable`.
    """

    cells: pd.DataFrame
    acceptance: pd.DataFrame
    acceptance_pooled: pd.DataFrame
    speed: pd.DataFrame

    def named(self) -> Mapping[str, pd.DataFrame]:
        """Frames by name."""
        return {
            "cells": self.cells,
            "acceptance": self.acceptance,
            "acceptance_pooled": self.acceptance_pooled,
            "speed": self.speed,
        }


def build_frames(found: Conclusions) -> RunFrames:
    """Frames of a measured run. Nothing is averaged."""
    run, ratios = found.run, found.ratios
    acceptance, speed = [], []
    for attempt in run.included:
        ratio = ratios.get(attempt.cell.id)
        own = (*attempt.speed, ratio) if ratio else attempt.speed
        acceptance += [_figure_row(attempt, figure) for figure in attempt.acceptance]
        speed += [_figure_row(attempt, figure) for figure in own]
    return RunFrames(
        cells=_frame((_cell_row(attempt) for attempt in run.attempts), CELL_COLUMNS),
        acceptance=_frame(acceptance, FIGURE_COLUMNS),
        acceptance_pooled=_frame(
            (
                {
                    "configuration": pooled.configuration,
                    "prompts": pooled.prompts,
                    "paths": " ".join(pooled.paths),
                    **_figure(figure),
                }
                for pooled in found.acceptance
                for figure in pooled.measurements
            ),
            POOLED_COLUMNS,
        ),
        speed=_frame(speed, FIGURE_COLUMNS),
    )


def _frame(rows: Iterable[Mapping[str, object]], columns: list[str]) -> pd.DataFrame:
    frame = pd.DataFrame(list(rows), columns=columns)
    whole = [name for name in ("num_speculative_tokens", "position", *_COUNTS) if name in columns]
    return frame.astype(dict.fromkeys(whole, "Int64"))


def _axes(attempt: MeasuredAttempt) -> dict[str, object]:
    return {
        "configuration": attempt.server.configuration,
        "prompts": attempt.cell.prompts,
        "concurrency": attempt.cell.concurrency,
        "repeat": attempt.cell.repeat,
        "cell": attempt.cell.id,
        "attempt": attempt.number,
        "path": attempt.path,
    }


def _figure_row(attempt: MeasuredAttempt, figure: Measurement) -> dict[str, object]:
    return {**_axes(attempt), **_figure(figure)}


def _figure(figure: Measurement) -> dict[str, object]:
    row = asdict(figure)
    interval = row.pop("interval") or dict.fromkeys(("low", "high", "method"))
    return row | {f"interval_{name}": value for name, value in interval.items()}


def _cell_row(attempt: MeasuredAttempt) -> dict[str, object]:
    speculative = attempt.server.speculative
    counts = attempt.counts.model_dump() if attempt.counts else {}
    return {
        **_axes(attempt),
        **counts,
        "server": attempt.server.id,
        "method": speculative.method.value if speculative else None,
        "num_speculative_tokens": speculative.num_speculative_tokens if speculative else None,
        "status": attempt.status.value,
        "reason": attempt.reason.value if attempt.reason else None,
        "message": attempt.message,
        "included": attempt.included,
        "warnings": "; ".join(check.message for check in attempt.warnings),
    }

"""From a stored run to a report that stands beside its raw files."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from runner.analysis.frames import build_frames
from runner.analysis.measured import MeasuredRun, measure_run
from runner.analysis.pooling import pool_acceptance
from runner.artifacts.atomic import write_atomic, write_json
from runner.errors import ArtifactError
from runner.report.plots import draw_acceptance, draw_curves, draw_positions
from runner.report.readme import render_readme, verdict_line
from runner.report.series import acceptance_bars, interactivity_curves, throughput_curves
from runner.report.summary import build_summary

FOLDER = "report"


@dataclass(frozen=True)
class ReportPaths:
    """What was written, and the sentence that says how much of the plan is in it."""

    folder: Path
    readme: Path
    summary: Path
    tables: tuple[Path, ...]
    plots: tuple[Path, ...]
    verdict: str


def write_report(run_root: Path, out: Path | None = None) -> ReportPaths:
    """Measure a run folder and write its report into `out` (default: `report/` inside it).

    Nothing is launched and the run's own files stay as they are; a report that was there is
    replaced. Plots that would be empty are not written.

    Raises:
        ArtifactError: the run can't be read, or the report can't be written.
    """
    run = measure_run(run_root)
    folder = out if out is not None else run_root / FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArtifactError(
            f"can't be made: {error.strerror}", where=str(folder), next_step="choose another --out"
        ) from error
    plots = tuple(_write_plots(run, folder))
    readme, summary = folder / "README.md", folder / "summary.json"
    prefix = os.path.relpath(run_root.resolve(), folder.resolve())
    names = frozenset(path.name for path in plots)
    write_json(summary, build_summary(run))
    tables = []
    for name, frame in build_frames(run).named().items():
        tables.append(folder / f"{name}.csv")
        write_atomic(tables[-1], frame.to_csv(index=False))
    write_atomic(readme, render_readme(run, prefix=prefix, plots=names))
    return ReportPaths(
        folder=folder,
        readme=readme,
        summary=summary,
        tables=tuple(tables),
        plots=plots,
        verdict=verdict_line(run),
    )


def _write_plots(run: MeasuredRun, folder: Path) -> Iterator[Path]:
    for name, figure in _plots(run):
        path = folder / f"{name}.png"
        if figure is None:
            path.unlink(missing_ok=True)
            continue
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
        write_atomic(path, buffer.getvalue())
        yield path


def _plots(run: MeasuredRun) -> Iterator[tuple[str, Figure | None]]:
    for name, curves in (
        ("throughput", throughput_curves(run)),
        ("interactivity", interactivity_curves(run)),
    ):
        yield name, None if curves.empty else draw_curves(curves)
    bars = acceptance_bars(run, pool_acceptance(run.attempts))
    yield "acceptance", draw_acceptance(bars) if bars else None
    with_positions = [bar for bar in bars if bar.positions]
    yield "positions", draw_positions(with_positions) if with_positions else None

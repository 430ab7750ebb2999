"""From a stored run to a report that stands beside its raw files."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from runner.analysis.conclusions import Conclusions, conclude
from runner.analysis.frames import build_frames
from runner.analysis.measured import measure_run
from runner.analysis.pooling import PooledAcceptance
from runner.analysis.speed_bench import matrix_csv
from runner.artifacts.atomic import write_atomic, write_json
from runner.errors import ArtifactError
from runner.report.bundle import RAW, LeftOut, copy_raw, left_out_text
from runner.report.contents import build_document, verdict_line
from runner.report.context_plot import context_panels, draw_context
from runner.report.drawn import Drawing
from runner.report.handoff import build_handoff
from runner.report.markdown import render_markdown
from runner.report.page import render_page
from runner.report.plots import draw_acceptance, draw_curves, draw_positions
from runner.report.series import (
    acceptance_bars,
    interactivity_curves,
    ratio_curves,
    throughput_curves,
)
from runner.report.summary import build_summary
from runner.report.tradeoff_plot import draw_tradeoff, tradeoff_lines

FOLDER = "report"
HANDOFF = "handoff.json"
SPEED_BENCH = "speed_bench.csv"
PLOTS = (
    *("acceptance", "positions", "categories", "long_context", "tradeoff", "speedup"),
    *("throughput", "interactivity"),
)
"""Names of every plot that a report may hold."""


@dataclass(frozen=True)
class ReportPaths:
    """What was written, and the sentence that says how much of the plan is in it.

    `plots` are the PNG files; each has an SVG beside it.
    """

    folder: Path
    readme: Path
    page: Path
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
    found = conclude(measure_run(run_root))
    folder = out if out is not None else run_root / FOLDER
    _make(folder)
    return _write(found, folder, os.path.relpath(run_root.resolve(), folder.resolve()))


def write_bundle(run_root: Path, out: Path) -> tuple[ReportPaths, tuple[LeftOut, ...]]:
    """A report that can be passed on: `out` holds it with the run's raw files below `raw/`, but
    for prompts and exports that a licence keeps private, which `LEFT_OUT.md` lists.

    Raises:
        ArtifactError: the run can't be read, `out` holds another bundle or can't be written.
    """
    found = conclude(measure_run(run_root))
    _make(out)
    left_out = copy_raw(run_root, found.run.plan, out)
    write_atomic(out / "LEFT_OUT.md", left_out_text(left_out))
    return _write(found, out, RAW), left_out


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArtifactError(
            f"can't be made: {error.strerror}", where=str(folder), next_step="choose another --out"
        ) from error


def _write(found: Conclusions, folder: Path, prefix: str) -> ReportPaths:
    drawings = draw(found)
    svgs = dict(_write_plots(drawings, folder))
    readme, page, summary = (folder / name for name in ("README.md", "page.html", "summary.json"))
    tables = []
    for name, frame in build_frames(found).named().items():
        tables.append(folder / f"{name}.csv")
        write_atomic(tables[-1], frame.to_csv(index=False))
    tables += _write_matrix(found, folder)
    names = (page.name, summary.name, HANDOFF, *(path.name for path in tables))
    document = build_document(found, plots=frozenset(drawings), files=names)
    write_json(summary, build_summary(found))
    write_json(folder / HANDOFF, build_handoff(found))
    write_atomic(readme, render_markdown(document, prefix))
    points = {name: drawing.points for name, drawing in drawings.items()}
    write_atomic(page, render_page(document, prefix=prefix, svgs=svgs, points=points))
    return ReportPaths(
        folder=folder,
        readme=readme,
        page=page,
        summary=summary,
        tables=tuple(tables),
        plots=tuple(folder / f"{name}.png" for name in drawings),
        verdict=verdict_line(found),
    )


def draw(found: Conclusions) -> Mapping[str, Drawing]:
    """Every plot that has something to show, by name."""
    run = found.run
    bars = acceptance_bars(run, found.acceptance)
    with_positions = [bar for bar in bars if bar.positions]
    categories = acceptance_bars(run, drawn_categories(found))
    context = context_panels(run, found.long_context)
    panels = tradeoff_lines(run, found.tradeoffs)
    drawings: dict[str, Drawing] = {}
    if bars:
        drawings["acceptance"] = draw_acceptance(bars)
    if with_positions:
        drawings["positions"] = draw_positions(with_positions)
    if categories:
        title = "Acceptance length by category"
        drawings["categories"] = draw_acceptance(categories, "categories", title)
    if context:
        drawings["long_context"] = draw_context(context)
    if panels:
        drawings["tradeoff"] = draw_tradeoff(panels)
    for name, curves in (
        ("speedup", ratio_curves(run, found.comparisons)),
        ("throughput", throughput_curves(run)),
        ("interactivity", interactivity_curves(run)),
    ):
        if not curves.empty:
            drawings[name] = draw_curves(curves, name)
    return drawings


def drawn_categories(found: Conclusions) -> tuple[PooledAcceptance, ...]:
    """Categories that are drawn: of acceptance sets where there are some, and none of MRCR, whose
    categories are the lengths of another plot. The table has them all."""
    modes = {cell.prompts: (cell.mode, cell.dataset or "") for cell in found.run.plan.cells}
    text = [one for one in found.categories if not modes[one.prompts][1].startswith("mrcr")]
    measured = [one for one in text if modes[one.prompts][0] == "acceptance"]
    return tuple(measured or text)


def _write_plots(drawings: Mapping[str, Drawing], folder: Path) -> Iterator[tuple[str, str]]:
    """PNG and SVG of each plot; those of a report that was there before and are empty now go."""
    for name in PLOTS:
        if name not in drawings:
            for ending in ("png", "svg"):
                (folder / f"{name}.{ending}").unlink(missing_ok=True)
            continue
        figure = drawings[name].figure
        write_atomic(folder / f"{name}.png", _saved(figure, "png"))
        svg = _saved(figure, "svg")
        write_atomic(folder / f"{name}.svg", svg)
        yield name, svg.decode()


def _saved(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    # equal data gives equal bytes
    with matplotlib.rc_context({"svg.hashsalt": "runner", "svg.fonttype": "path"}):
        metadata = {"Date": None} if kind == "svg" else {}
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()


def _write_matrix(found: Conclusions, folder: Path) -> list[Path]:
    path = folder / SPEED_BENCH
    if not found.matrix:
        path.unlink(missing_ok=True)
        return []
    write_atomic(path, matrix_csv(found.matrix))
    return [path]

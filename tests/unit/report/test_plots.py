"""Plots, checked from what was drawn: statistic, grouping, labels, values."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.axes import Axes

from runner.analysis.conclusions import Conclusions, conclude
from runner.analysis.measured import measure_run
from runner.models.plan import PlannedRow
from runner.report.context_plot import context_panels, draw_context
from runner.report.drawn import Drawing
from runner.report.series import acceptance_bars, ratio_curves
from runner.report.tradeoff_plot import draw_tradeoff, tradeoff_lines
from runner.report.write import draw
from tests.unit.analysis.sweep import Request, Sweep, same

DRAFTED = (3, 3)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Conclusions:
    """Two loads of a baseline and a drafter, and an MRCR set with the drafter at concurrency 1."""
    sweep = Sweep(tmp_path_factory.mktemp("sweep"))
    sweep.drafter()
    for concurrency, base, ours in ((1, 1.0, 0.5), (4, 2.0, 2.5)):
        sweep.cell("baseline", same(16, latency_s=base, ttft_s=base / 5), concurrency)
        requests = same(16, latency_s=ours, ttft_s=ours / 5, accepted=DRAFTED)
        sweep.cell("drafter", requests, concurrency)
    rows = [PlannedRow(id=f"m{i}", prompt_tokens=tokens) for i, tokens in enumerate((1500, 3000))]
    sweep.cell(
        "drafter",
        [Request("m0", accepted=[3, 1], tokens=7), Request("m1", accepted=[1, 1], tokens=5)],
        prompts="mrcr",
        rows=rows,
        mode="acceptance",
    )
    return conclude(measure_run(sweep.write()))


def lines(axes: Axes) -> dict[str, list[tuple[float, float]]]:
    """Points of each visible line, by its label."""
    return {
        str(line.get_label()): list(zip(line.get_xdata(), line.get_ydata(), strict=True))
        for line in axes.get_lines()
        if line.get_label() != "_hit" and len(line.get_xdata()) > 1
    }


def told(drawing: Drawing, label: str) -> list[dict[str, str]]:
    return [dict(point.values) for point in drawing.points if point.label == label]


def test_every_plot_with_something_to_show_is_drawn(found: Conclusions) -> None:
    assert set(draw(found)) == {
        *("acceptance", "positions", "long_context", "tradeoff", "speedup"),
        *("throughput", "interactivity"),
    }


def test_tradeoff_has_interactivity_across_and_throughput_up(found: Conclusions) -> None:
    drawing = draw_tradeoff(tradeoff_lines(found.run, found.tradeoffs))
    (axes,) = drawing.figure.axes
    # 9 tokens, TTFT a fifth of the latency L: interactivity 10 / L, throughput 9 x concurrency / L
    assert lines(axes) == {
        "baseline": [(pytest.approx(10), pytest.approx(9)), (pytest.approx(5), pytest.approx(18))],
        "drafter": [
            (pytest.approx(20), pytest.approx(18)),
            (pytest.approx(4), pytest.approx(14.4)),
        ],
    }
    assert axes.get_xlabel() == "interactivity (tokens per second and user)"
    assert axes.get_ylabel() == "output tokens per second"
    assert axes.get_xlim()[0] == axes.get_ylim()[0] == 0
    assert [text.get_text() for text in axes.texts] == ["1", "4", "1", "4"]
    assert "sum of output tokens / window" in drawing.figure.texts[1].get_text()
    assert told(drawing, "drafter, code")[0] == {
        "concurrency": "1",
        "interactivity": "20.00 tokens/s per user",
        "throughput": "18.0 tokens/s",
    }
    paths = [point.path for point in drawing.points if point.label == "drafter, code"]
    assert paths == [f"cells/drafter-code-c{c}-r1/attempt-1" for c in (1, 4)]


def test_ratios_are_drawn_with_a_line_at_one(found: Conclusions) -> None:
    curves = ratio_curves(found.run, found.comparisons)
    (panel,) = curves.panels
    (line,) = panel.lines
    # 18 / 9 and 14.4 / 18
    assert [point.value for point in line.points] == [pytest.approx(2.0), pytest.approx(0.8)]
    assert "95 % interval" in curves.statistic
    axes = draw(found)["speedup"].figure.axes[0]
    drawn = lines(axes)
    assert drawn["drafter"] == [(1.0, pytest.approx(2.0)), (4.0, pytest.approx(0.8))]
    level = [line for line in axes.get_lines() if list(line.get_ydata()) == [1.0, 1.0]]
    assert len(level) == 1


def test_long_context_is_drawn_by_bin(found: Conclusions) -> None:
    drawing = draw_context(context_panels(found.run, found.long_context))
    (axes,) = drawing.figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1k-2k", "2k-4k"]
    # 1 + 4 / 2 and 1 + 2 / 2
    (points,) = lines(axes).values()
    assert points == [(0, 3.0), (1, 2.0)]
    assert axes.get_title(loc="left") == "Acceptance length, mrcr"
    assert told(drawing, "drafter")[1]["acceptance length"] == "2.00"


def test_bars_carry_their_interval(found: Conclusions) -> None:
    bars = acceptance_bars(found.run, found.acceptance)
    assert [(bar.prompts, bar.length, bar.low, bar.high) for bar in bars] == [
        ("code", 4.0, 4.0, 4.0),
        ("mrcr", 2.5, 2.5, 2.5),
    ], "two rows are too few to draw from"


def test_marks_can_be_found_in_the_svg(found: Conclusions) -> None:
    for name, drawing in draw(found).items():
        gids = [point.gid for point in drawing.points]
        assert len(gids) == len(set(gids)) > 0
        assert all(gid.startswith(f"{name}-") for gid in gids)


def test_the_same_run_draws_the_same_bytes(tmp_path: Path) -> None:
    from runner.client.report import report_run

    sweep = Sweep(tmp_path)
    sweep.drafter()
    sweep.cell("baseline", same(6))
    sweep.cell("drafter", same(6, accepted=DRAFTED))
    root = sweep.write()
    first = report_run(root, tmp_path / "one")
    second = report_run(root, tmp_path / "two")
    for path in first.folder.iterdir():
        assert path.read_bytes() == (second.folder / path.name).read_bytes(), path.name

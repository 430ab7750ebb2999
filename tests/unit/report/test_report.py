"""The report of a run folder: links, figures, what was drawn."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import matplotlib.image
import pandas as pd
import pytest

from runner.analysis.measured import measure_run
from runner.analysis.pooling import pool_acceptance
from runner.client.report import report_run
from runner.models.status import Reason, Status
from runner.report.plots import draw_acceptance, draw_curves, draw_positions
from runner.report.series import acceptance_bars, interactivity_curves, throughput_curves
from runner.report.write import ReportPaths
from tests.fixtures.run_folder import NGRAM, RunFolder, build_demo_run, cell_plan, exports_of


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportPaths:
    """One report for every test that only reads it: plots take their time."""
    return report_run(build_demo_run(tmp_path_factory.mktemp("run")))


def walk(value: Any):
    yield value
    if isinstance(value, dict):
        for child in value.values():
            yield from walk(child)
    elif isinstance(value, list):
        for child in value:
            yield from walk(child)


def refuse_constant(name: str) -> float:
    raise AssertionError(f"{name} in summary.json")


def load(report: ReportPaths) -> dict[str, Any]:
    return json.loads(report.summary.read_text(), parse_constant=refuse_constant)


def test_files(report: ReportPaths) -> None:
    assert report.folder.name == "report"
    plots = ("acceptance", "interactivity", "positions", "speedup", "throughput", "tradeoff")
    assert {path.name for path in report.folder.iterdir()} == {
        *("README.md", "page.html", "summary.json", "handoff.json"),
        *("acceptance.csv", "acceptance_pooled.csv", "cells.csv", "speed.csv"),
        *(f"{name}.{ending}" for name in plots for ending in ("png", "svg")),
    }
    assert report.verdict == (
        "6 of 9 cells succeeded and are in the figures; 3 left out. "
        "0 of 2 throughput ratios are below 1."
    )


def test_every_link_leads_somewhere(report: ReportPaths) -> None:
    text = report.readme.read_text()
    targets = set(re.findall(r"\]\(([^)]+)\)", text))
    anchors = set(re.findall(r'<a id="([^"]+)">', text))
    anchors |= {head.lower().replace(" ", "-") for head in re.findall(r"^#+ (.+)$", text, re.M)}
    assert "../cells/ngram-code-c4-r1/attempt-1/" in targets
    for target in targets:
        if target.startswith("#"):
            assert target[1:] in anchors, target
        else:
            assert (report.folder / target).exists(), target


def test_numbers_link_to_their_cell(report: ReportPaths) -> None:
    text = report.readme.read_text()
    assert "[94.4](../cells/baseline-chat-c1-r1/attempt-1/)" in text
    assert "[1.80](../cells/ngram-code-c4-r1/attempt-1/)" in text
    assert "[98.17](../cells/baseline-chat-c1-r1/attempt-1/)" in text
    assert "[4.00 \\[4.00, 4.00\\]](../cells/twin-code-c4-r1/attempt-1/)" in text


def test_coverage_and_left_out_are_said(report: ReportPaths) -> None:
    text = report.readme.read_text()
    assert "`ngram` on `code` drafted in only 57.3 % of its decode steps" in text
    assert "6 of 12 failed: 500 Internal Server Error (limit 0 %)" in text
    assert "cancelled: 28 of 200 requests recorded" in text
    assert "[refused](../cells/ngram-code-c4-r1/attempt-1/)" in text
    assert "No ratio for ngram-code-c2-r1: cell baseline-code-c2-r1 is PENDING" in text


def test_doubts_are_said(report: ReportPaths) -> None:
    text = report.readme.read_text()
    assert "in the order baseline, ngram, twin: a host that got slower" in text
    assert "Effective settings were not compared: `twin` kept no answer" in text
    assert "Every cell was measured once" in text
    assert (
        "The streams of baseline-code-c4-r1, ngram-code-c4-r1, twin-code-c4-r1 arrived in lumps."
        in text.replace("ngram-code-c2-r1, ", "")
    )
    differences = load(report)["differences"]
    assert [(one["configuration"], one["not_compared"]) for one in differences] == [
        ("ngram", ["ngram", "baseline"]),
        ("twin", ["twin", "baseline"]),
    ]


@pytest.mark.parametrize(("tokens", "said"), [(60, False), (30, True)])
def test_answers_of_another_length_are_said(tmp_path: Path, tokens: int, said: bool) -> None:
    def shorter(exports: Path) -> Path:
        folder = tmp_path / "shorter"
        shutil.copytree(exports, folder)
        path = folder / "profile_export.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        lines[0]["metrics"]["usage_completion_tokens"]["value"] = tokens
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return folder

    run = RunFolder(tmp_path / "run")
    run.server("baseline")
    run.server("ngram", NGRAM)
    base = shorter(exports_of("coalesced_base_c4"))
    run.record(run.plan(cell_plan("baseline", "code", 4, base)), base)
    drafted = exports_of("coalesced_ngram_c4")
    run.record(run.plan(cell_plan("ngram", "code", 4, drafted)), drafted)
    text = report_run(run.write()).readme.read_text()
    sentence = "Answers of ngram-code-c4-r1 have 2560 tokens in all, those of baseline-code-c4-r1"
    assert (f"{sentence} {2560 - 64 + tokens}." in text) is said


def test_summary_of_a_perfect_drafter_is_exact(report: ReportPaths) -> None:
    (twin,) = [item for item in load(report)["pooled"] if item["configuration"] == "twin"]
    assert twin["figures"]["acceptance_length"] == {
        "value": 4.0,
        "unit": "tokens per step",
        "statistic": "pooled over drafted steps",
        "interval": {"low": 4.0, "high": 4.0, "method": "bootstrap over 40 rows"},
        "cell": "cells/twin-code-c4-r1/attempt-1",
    }
    assert twin["figures"]["draft_acceptance_rate"]["value"] == 1.0
    assert twin["figures"]["drafting_coverage"]["value"] == 1.0
    assert [item["value"] for item in twin["figures"]["position_acceptance"]] == [1.0, 1.0, 1.0]


def test_summary_of_ngram_has_bounds_and_every_cell(report: ReportPaths) -> None:
    (ngram,) = [item for item in load(report)["pooled"] if item["configuration"] == "ngram"]
    coverage = ngram["figures"]["drafting_coverage"]
    # drafted 351 + 705; streamed 605 + 1237; at most 618 + 1255; at least 541 + 1122
    assert coverage["value"] == 1056 / 1842
    assert (coverage["low"], coverage["high"]) == (1056 / 1873, 1056 / 1663)
    assert coverage["cells"] == [
        "cells/ngram-code-c2-r1/attempt-2",
        "cells/ngram-code-c4-r1/attempt-1",
    ]


def test_summary_figures_are_whole(report: ReportPaths) -> None:
    summary = load(report)
    assert summary["schema_version"] == 2
    figures = [node for node in walk(summary) if isinstance(node, dict) and "unit" in node]
    assert len(figures) > 50
    for figure in figures:
        assert isinstance(figure["value"], int | float)
        assert figure["statistic"]
        for path in [figure["cell"]] if "cell" in figure else figure["cells"]:
            assert (report.folder.parent / path).is_dir()
    refused = [item["figures"]["interactivity"] for item in summary["cells"]]
    assert sum("unavailable" in figure for figure in refused) == 4
    assert [(item["id"], item["status"]) for item in summary["left_out"]] == [
        ("ngram-chat-c1-r1", "FAILED"),
        ("ngram-chat-c4-r1", "FAILED"),
        ("baseline-code-c2-r1", "PENDING"),
        ("ngram-code-c2-r1", "FAILED"),
    ]


def test_csv_is_tidy(report: ReportPaths) -> None:
    cells = pd.read_csv(report.folder / "cells.csv")
    assert len(cells) == 10
    pooled = pd.read_csv(report.folder / "acceptance_pooled.csv")
    length = pooled[(pooled["metric"] == "acceptance_length")].set_index("configuration")["value"]
    assert length["twin"] == 4.0
    assert length["ngram"] == pytest.approx(1 + 2117 / 1056)


def test_what_is_drawn(demo_run: Path) -> None:
    run = measure_run(demo_run)
    curves = throughput_curves(run)
    chat, code = curves.panels
    assert [(line.configuration, line.slot) for line in code.lines] == [
        ("baseline", None),
        ("ngram", 0),
        ("twin", 1),
    ]
    base, ngram = chat.lines
    assert [point.concurrency for point in base.points] == [1, 4]
    assert base.points[0].value == pytest.approx(94.43170839)
    assert base.points[0].cells == ("cells/baseline-chat-c1-r1/attempt-1",)
    assert (ngram.points, ngram.left_out) == ((), (1, 4))
    bars = acceptance_bars(run, pool_acceptance(run.attempts))
    assert [(bar.configuration, bar.length, bar.k) for bar in bars] == [
        ("ngram", (1056 + 2117) / 1056, 4),
        ("twin", 4.0, 3),
    ]
    interactivity = interactivity_curves(run)
    assert interactivity.panels[0].lines[0].points[1].value == pytest.approx(90.39128012)
    assert [line.points for line in interactivity.panels[1].lines] == [(), (), ()]


def test_plots_hold_the_data_and_say_what_they_show(demo_run: Path) -> None:
    run = measure_run(demo_run)
    figure = draw_curves(throughput_curves(run)).figure
    chat, code = figure.axes
    baseline = chat.get_lines()[0]
    assert list(baseline.get_xdata()) == [1.0, 4.0]
    assert list(baseline.get_ydata()) == pytest.approx([94.43170839, 329.33057089])
    assert baseline.get_linestyle() == "--"
    assert chat.get_ylim()[0] == 0
    assert chat.get_xlim()[0] == 0
    assert [label.get_text() for label in code.get_xticklabels()] == ["2", "4"]
    assert chat.get_ylabel() == "output tokens per second"
    assert "first start to last end" in figure.texts[1].get_text()
    bars = acceptance_bars(run, pool_acceptance(run.attempts))
    (axes,) = draw_acceptance(bars).figure.axes
    widths = [patch.get_width() for patch in axes.patches]
    assert widths == [5, (1056 + 2117) / 1056, 4, 4.0], "ceiling, then value, for each bar"
    (positions,) = draw_positions(bars).figure.axes
    assert list(positions.get_lines()[1].get_ydata()) == [1.0, 1.0, 1.0]
    assert positions.get_ylim()[0] == 0


def test_repeats_are_averaged_with_their_range(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.server("baseline")
    for repeat, name in ((1, "pinned_base_c1"), (2, "pinned_base_c4")):
        exports = exports_of(name)
        run.record(run.plan(cell_plan("baseline", "chat", 8, exports, repeat=repeat)), exports)
    curves = throughput_curves(measure_run(run.write(Status.SUCCEEDED)))
    (point,) = curves.panels[0].lines[0].points
    assert (point.low, point.high) == (pytest.approx(94.43170839), pytest.approx(329.33057089))
    assert point.value == pytest.approx((94.43170839 + 329.33057089) / 2)
    assert "mean of up to 2 repeats" in curves.statistic
    assert len(point.cells) == 2


def test_pngs_are_images(report: ReportPaths) -> None:
    for path in report.plots:
        pixels = matplotlib.image.imread(path)
        assert pixels.shape[1] >= 1000
        assert pixels.min() < 0.5 < pixels.max()


def test_run_without_a_success(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.server("baseline")
    cell = run.plan(cell_plan("baseline", "chat", 1, exports_of("pinned_base_c1")))
    run.fail(cell, Reason.SERVER_START_FAILED, "no | luck with [this]")
    report = report_run(run.write())
    assert report.plots == ()
    text = report.readme.read_text()
    assert "0 of 1 cells succeeded" in text
    assert "no \\| luck with \\[this\\]" in text
    assert "No cell with speculation is in the figures." in text


def test_elsewhere_links_back(demo_run: Path, tmp_path: Path) -> None:
    report = report_run(demo_run, tmp_path / "out" / "here")
    (target,) = set(re.findall(r"\[94\.4\]\(([^)]+)\)", report.readme.read_text()))
    assert (report.folder / target / "result.json").is_file()
    assert not (demo_run / "report").exists()

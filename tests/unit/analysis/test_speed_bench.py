"""The SPEED-Bench matrix: whose counters, in which order, and its CSV to the byte."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.analysis.measured import measure_run
from runner.analysis.speed_bench import (
    CATEGORIES,
    PREFIX,
    MatrixEntry,
    MatrixRow,
    matrix_csv,
    speed_bench_matrix,
)
from tests.fixtures.run_folder import counters_text
from tests.unit.analysis.sweep import Request, Sweep, same

BY_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"


def scrape(drafts: int, drafted: int, accepted: int) -> str:
    """Counters of one engine; every accepted draft was the first of its step."""
    first = f'# TYPE {BY_POSITION} counter\n{BY_POSITION}{{engine="0",position="0"}} {accepted}\n'
    return counters_text(drafts, drafted, accepted) + first


@dataclass
class Bench:
    """Cells on categories, with scrapes beside them."""

    root: Path

    def __post_init__(self) -> None:
        self.sweep = Sweep(self.root)
        self.scrapes: dict[str, tuple[str, str]] = {}
        self.sweep.drafter()

    def cell(
        self,
        category: str,
        counts: tuple[int, int, int],
        server: str = "drafter",
        *,
        mode: str = "acceptance",
        repeat: int = 1,
        broken: bool = False,
    ) -> str:
        """A cell over which the counters grow by drafts, drafted and accepted."""
        requests = same(5, accepted=None if server == "baseline" else (3, 3))
        if broken:
            requests[-1] = Request(row="rows/4", error="out of memory")
        name = self.sweep.cell(
            server,
            requests,
            prompts=f"{mode}-{category}",
            mode=mode,
            dataset=f"{PREFIX}{category}",
            repeat=repeat,
        )
        before = (10, 40, 20)
        after = [old + new for old, new in zip(before, counts, strict=True)]
        self.scrapes[name] = scrape(*before), scrape(*after)
        return name

    def write(self) -> tuple[MatrixRow, ...]:
        """The matrix of the run."""
        root = self.sweep.write()
        for name, texts in self.scrapes.items():
            folder = root / f"cells/{name}/attempt-1/server"
            folder.mkdir()
            for file, text in zip(("metrics_before", "metrics_after"), texts, strict=True):
                (folder / f"{file}.prom").write_text(text)
        return speed_bench_matrix(measure_run(root))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_every_category_in_the_fixed_order(bench: Bench) -> None:
    # lengths 1.1, 1.2, … 2.1 in the fixed order: accepted n of 10 drafts; 20 drafted for each.
    # mean 1 + (1 + … + 11) / 110 = 1.6, rates half of what lies above 1
    for number, category in reversed([*enumerate(CATEGORIES, 1)]):
        bench.cell(category, (10, 20, number))
    rows = bench.write()
    header = (
        "Model,coding,humanities,math,multilingual,qa,rag,reasoning,roleplay,stem,"
        "summarization,writing,Overall\r\n"
    )
    assert matrix_csv(rows) == (
        f"{header}drafter,1.10,1.20,1.30,1.40,1.50,1.60,1.70,1.80,1.90,2.00,2.10,1.60\r\n"
    )
    assert matrix_csv(rows, "rate") == (
        f"{header}drafter,0.05,0.10,0.15,0.20,0.25,0.30,0.35,0.40,0.45,0.50,0.55,0.30\r\n"
    )


def test_overall_is_the_mean_over_categories_not_over_drafts(bench: Bench) -> None:
    bench.cell("math", (1000, 3000, 2000))
    bench.cell("qa", (10, 30, 0))
    (row,) = bench.write()
    # (3 + 1) / 2; over drafts it would be 1 + 2000 / 1010 = 2.98
    assert row.overall_length == pytest.approx(2.0)
    assert row.overall_rate == pytest.approx((2 / 3 + 0) / 2)


def test_repeats_of_a_category_are_added_up_before_dividing(bench: Bench) -> None:
    bench.cell("math", (100, 300, 200))
    bench.cell("math", (300, 900, 200), repeat=2)
    (row,) = bench.write()
    # 1 + 400 / 400; the mean of 3 and 1.667 would be 2.33
    assert row.entries["math"].length == pytest.approx(2.0)
    assert row.entries["math"].rate == pytest.approx(400 / 1200)
    assert len(row.entries["math"].paths) == 2


def test_configurations_by_name_with_their_gaps(bench: Bench) -> None:
    for name in ("zeta", "alpha, k=3"):
        bench.sweep.drafter(name)
    bench.cell("qa", (10, 20, 5), "zeta")
    bench.cell("coding", (10, 20, 10), "alpha, k=3")
    assert matrix_csv(bench.write()) == (
        "Model,coding,qa,Overall\r\n"
        '"alpha, k=3",2.00,,2.00\r\n'  # as csv quotes it
        "zeta,,1.50,1.50\r\n"
    )


def test_other_cells_are_not_in_the_matrix(bench: Bench) -> None:
    bench.cell("coding", (10, 20, 10))
    bench.cell("math", (10, 20, 10), mode="speedup")
    bench.cell("qa", (10, 20, 10), "baseline")
    bench.cell("rag", (10, 20, 10), broken=True)
    bench.sweep.cell("drafter", same(5, accepted=(3, 3)), prompts="all", dataset=PREFIX + "mixed")
    bench.sweep.cell("drafter", same(5, accepted=(3, 3)), prompts="math", dataset="math")
    rows = bench.write()
    assert [(row.configuration, [*row.entries]) for row in rows] == [("drafter", ["coding"])]


def test_a_server_that_began_anew_tells_nothing(bench: Bench) -> None:
    bench.cell("coding", (10, 20, 10))
    name = bench.cell("math", (10, 20, 10))
    bench.scrapes[name] = scrape(10, 40, 20), scrape(5, 20, 10)
    torn = bench.cell("qa", (10, 20, 10))
    bench.scrapes[torn] = scrape(10, 40, 20), 'vllm:spec_decode_num_drafts_total{engine="0" 12'
    rows = bench.write()
    assert matrix_csv(rows) == "Model,coding,math,qa,Overall\r\ndrafter,2.00,,,2.00\r\n"
    assert rows[0].entries["math"].paths == (f"cells/{name}/attempt-1",)


def test_one_repeat_that_tells_nothing_leaves_its_category_empty(bench: Bench) -> None:
    bench.cell("math", (10, 20, 10))
    name = bench.cell("math", (10, 20, 10), repeat=2)
    bench.scrapes[name] = scrape(10, 40, 20), ""
    assert matrix_csv(bench.write()) == "Model,math,Overall\r\ndrafter,,\r\n"


def test_without_a_draft_there_is_no_length(bench: Bench) -> None:
    bench.cell("math", (0, 0, 0))
    (row,) = bench.write()
    assert (row.entries["math"].length, row.entries["math"].rate) == (None, None)
    assert (row.overall_length, row.overall_rate) == (None, None)


def test_no_category_no_row(bench: Bench) -> None:
    bench.sweep.cell("drafter", same(5, accepted=(3, 3)))
    assert bench.write() == ()
    assert matrix_csv(()) == "Model,Overall\r\n"


VALUES = st.one_of(st.none(), st.integers(100, 800).map(lambda value: value / 128))
TABLES = st.dictionaries(
    st.text("abk=3,\" '-", min_size=1, max_size=6),
    st.dictionaries(st.sampled_from(CATEGORIES), VALUES, min_size=1, max_size=11),
    max_size=4,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(TABLES, st.randoms(use_true_random=False))
def test_the_text_is_that_of_aiperfs_writer(
    table: dict[str, dict[str, float | None]], random
) -> None:
    """Beside the steps of `write_csv` in AIPerf 0.13's analysis/speed_bench_report.py."""
    columns = [name for name in CATEGORIES if any(name in data for data in table.values())]
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(["Model", *columns, "Overall"])
    for model, data in sorted(table.items()):
        known = [value for name in columns if (value := data.get(name)) is not None]
        cells = ["" if data.get(name) is None else f"{data[name]:.2f}" for name in columns]
        writer.writerow([model, *cells, f"{mean(known):.2f}" if known else ""])
    rows = [
        MatrixRow(name, {key: MatrixEntry(value, None, ()) for key, value in data.items()})
        for name, data in table.items()
    ]
    random.shuffle(rows)
    assert matrix_csv(rows) == out.getvalue()

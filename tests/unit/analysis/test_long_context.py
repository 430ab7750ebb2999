"""MRCR by prompt length: bins, failures, net speed-up, scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.analysis.long_context import LongContext, long_context
from runner.analysis.measured import measure_run
from runner.models.plan import PlannedRow
from tests.unit.analysis.sweep import Request, Sweep

PREFIX = "aB3dE5fG7h"
EXPECTED = f"{PREFIX}The quick brown fox."


def planned(lengths: list[int | None]) -> list[PlannedRow]:
    return [PlannedRow(id=f"m{i}", prompt_tokens=tokens) for i, tokens in enumerate(lengths)]


def found_in(sweep: Sweep, configuration: str = "drafter") -> LongContext:
    every = long_context(measure_run(sweep.write()))
    (one,) = [item for item in every if item.configuration == configuration]
    return one


def with_answers(sweep: Sweep, rows: list[PlannedRow]) -> None:
    inputs = sweep.run.root / "inputs"
    inputs.mkdir(parents=True)
    question = {"role": "user", "content": f"Begin with {PREFIX} and repeat the second poem."}
    rows_of = [{"session_id": row.id, "messages": [question]} for row in rows]
    answers = [{"session_id": row.id, "answer": EXPECTED} for row in rows]
    for name, lines in (("mrcr.jsonl", rows_of), ("mrcr.answers.jsonl", answers)):
        (inputs / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_bins_with_counts_acceptance_and_net_speed_up(tmp_path: Path) -> None:
    rows = planned([1500, 1600, 3000])
    sweep = Sweep(tmp_path)
    sweep.drafter()
    sweep.cell(
        "baseline",
        [
            Request(row=f"m{i}", latency_s=latency, tokens=tokens)
            for i, (latency, tokens) in enumerate(((2.0, 7), (4.0, 7), (6.0, 3)))
        ],
        prompts="mrcr",
        rows=rows,
    )
    sweep.cell(
        "drafter",
        [
            Request(row="m0", latency_s=1.0, accepted=[3, 1], tokens=7),
            Request(row="m1", latency_s=2.0, accepted=[2, 2], tokens=7),
            Request(row="m2", latency_s=8.0, accepted=[0, 0], tokens=3),
        ],
        prompts="mrcr",
        rows=rows,
    )
    one = found_in(sweep)
    assert [item.bin for item in one.bins] == ["1k-2k", "2k-4k"]
    short, long = one.bins
    assert (short.good, short.failed, long.good) == (2, 0, 1)
    # 8 accepted in 4 steps, 0 in 2
    assert short.acceptance is not None and short.acceptance.length == 3.0
    assert long.acceptance is not None and long.acceptance.length == 1.0
    # (2 + 4) / (1 + 2), 6 / 8
    assert short.speedup.value == pytest.approx(2.0)
    assert long.speedup.value == pytest.approx(0.75)
    assert (short.longest, one.longest) == (1600, 3000)


def test_prompts_that_were_not_counted_go_by_the_servers_count(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.drafter()
    requests = [Request(row="m0", accepted=[1], tokens=3, prompt_tokens=5000)]
    sweep.cell("drafter", requests, prompts="mrcr", rows=planned([None]))
    assert [item.bin for item in found_in(sweep).bins] == ["4k-8k"]


def test_a_failed_cell_counts_its_failures_and_nothing_else(tmp_path: Path) -> None:
    limit = "This model's maximum context length is 4096 tokens. However, you requested 5000."
    sweep = Sweep(tmp_path)
    sweep.drafter()
    sweep.cell(
        "drafter",
        [
            Request(row="m0", accepted=[3, 3]),
            Request(row="m1", error=limit),
            Request(row="m2", error="Internal Server Error"),
        ],
        prompts="mrcr",
        rows=planned([1500, 5000, 5100]),
    )
    one = found_in(sweep)
    counts = {item.bin: (item.good, item.failed, item.context_limit) for item in one.bins}
    assert counts == {"4k-8k": (0, 2, 1)}
    assert one.bins[0].acceptance is None
    assert one.longest is None


def test_without_a_baseline_cell_the_net_speed_up_is_unavailable(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.drafter()
    requests = [Request(row="m0", accepted=[1], tokens=3)]
    sweep.cell("drafter", requests, prompts="mrcr", rows=planned([1500]))
    one = found_in(sweep)
    words = "the baseline has no cell on these prompts at this concurrency"
    assert one.bins[0].speedup.unavailable == words
    assert one.no_score == "the run has no expected answers beside its prompts"


def test_other_work_has_no_net_speed_up(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.drafter()
    rows = planned([1500])
    sweep.cell("baseline", [Request(row="m0", tokens=90)], prompts="mrcr", rows=rows)
    sweep.cell("drafter", [Request(row="m0", accepted=[3, 3])], prompts="mrcr", rows=rows)
    assert "9 output tokens against 90" in str(found_in(sweep).bins[0].speedup.unavailable)


def test_a_baseline_under_other_settings_gives_no_net_speed_up(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.drafter()
    container = sweep.run.servers["drafter"].container
    other = container.model_copy(update={"environment": {"FOO": "1"}})
    sweep.run.change_server("drafter", container=other)
    rows = planned([1500])
    sweep.cell("baseline", [Request(row="m0")], prompts="mrcr", rows=rows)
    sweep.cell("drafter", [Request(row="m0", accepted=[3, 3])], prompts="mrcr", rows=rows)
    assert str(found_in(sweep).bins[0].speedup.unavailable).startswith("not comparable")


def test_failures_of_rows_whose_length_nobody_knows_are_counted(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.drafter()
    requests = [Request(row="m0", error="Internal Server Error")]
    sweep.cell("drafter", requests, prompts="mrcr", rows=planned([None]))
    (only,) = found_in(sweep).bins
    assert (only.bin, only.failed) == ("length not known", 1)


def test_answers_are_scored_as_the_dataset_says(tmp_path: Path) -> None:
    rows = planned([1500, 1500, 1500])
    sweep = Sweep(tmp_path)
    with_answers(sweep, rows)
    sweep.drafter()
    texts = (EXPECTED, "The quick brown fox.", f"{PREFIX}The quick")
    sweep.cell(
        "drafter",
        [Request(row=f"m{i}", accepted=[1], tokens=3, text=text) for i, text in enumerate(texts)],
        prompts="mrcr",
        rows=rows,
    )
    one = found_in(sweep)
    (only,) = one.bins
    # 1; 0 without the prefix; 2 x 9 / (9 + 20) for the beginning alone
    assert only.score == pytest.approx((1 + 0 + 18 / 29) / 3)
    assert only.scored == 3
    assert one.no_score is None


def test_other_prompts_are_no_long_context(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.cell("baseline", [Request(row="a")])
    assert long_context(measure_run(sweep.write())) == ()

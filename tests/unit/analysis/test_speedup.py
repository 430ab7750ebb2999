"""Ratios at equal concurrency: values, intervals, and what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from runner.analysis.conclusions import conclude
from runner.analysis.measured import measure_run
from runner.analysis.resampling import (
    acceptance_sums,
    draws,
    ratio_interval,
    repeats_interval,
    row_sums,
)
from runner.analysis.speedup import Judgement, LoadPair, compare_speed, counted
from runner.models.status import Reason
from tests.unit.analysis.sweep import Request, Sweep, same

DRAFTED = (3, 3)
"""Nine tokens: one from the prefill, two steps of four."""


def load_of(sweep: Sweep) -> LoadPair:
    (comparison,) = compare_speed(measure_run(sweep.write()))
    (load,) = comparison.loads
    return load


def pair(tmp_path: Path, ours: list[Request], theirs: list[Request], concurrency: int = 1) -> Sweep:
    sweep = Sweep(tmp_path)
    sweep.drafter()
    sweep.cell("baseline", theirs, concurrency)
    sweep.cell("drafter", ours, concurrency)
    return sweep


def test_a_ratio_worked_out_by_hand(tmp_path: Path) -> None:
    # 8 rows one after the other, 9 tokens each: 72 tokens in 8 s against 72 in 16 s.
    # ITL: (1 - 0.2) / 8 = 0.1 s and (2 - 0.4) / 8 = 0.2 s. TTFT: 0.2 s and 0.4 s.
    sweep = pair(
        tmp_path,
        same(8, latency_s=1.0, ttft_s=0.2, accepted=DRAFTED),
        same(8, latency_s=2.0, ttft_s=0.4),
    )
    load = load_of(sweep)
    assert load.throughput.value == pytest.approx(2.0)
    assert load.interactivity.value == pytest.approx(2.0)
    assert load.ttft.value == pytest.approx(0.5)
    # every row is like the others, so that no choice of rows changes anything
    interval = load.throughput.interval
    assert interval is not None
    assert (interval.low, interval.high) == (pytest.approx(2.0), pytest.approx(2.0))
    assert interval.method == "bootstrap over 8 rows"
    assert load.throughput.judgement is Judgement.ABOVE
    assert load.ttft.judgement is Judgement.BELOW


def test_equal_servers_show_no_difference(tmp_path: Path) -> None:
    times = [0.5, 1.0, 2.0, 0.7, 1.3, 0.9]
    rows = [Request(row=f"r{i}", latency_s=time) for i, time in enumerate(times)]
    drafted = [
        Request(row=f"r{i}", latency_s=time, accepted=DRAFTED) for i, time in enumerate(times)
    ]
    load = load_of(pair(tmp_path, drafted, rows))
    assert load.throughput.value == pytest.approx(1.0)
    # the same rows are drawn on both sides: nothing is left to vary
    assert load.throughput.judgement is Judgement.NO_DIFFERENCE


def test_noisy_rows_widen_the_interval_until_it_holds_one(tmp_path: Path) -> None:
    # the drafter wins on every other row and loses on the others; on average it gains a little
    theirs = [Request(row=f"r{i}", latency_s=1.0) for i in range(8)]
    ours = [
        Request(row=f"r{i}", latency_s=0.4 if i % 2 else 1.5, accepted=DRAFTED) for i in range(8)
    ]
    load = load_of(pair(tmp_path, ours, theirs))
    # 8 s against 4 x 0.4 + 4 x 1.5 = 7.6 s
    assert load.throughput.value == pytest.approx(8 / 7.6)
    interval = load.throughput.interval
    assert interval is not None and interval.low < 1 < interval.high
    assert load.throughput.judgement is Judgement.NO_DIFFERENCE


def test_three_repeats_give_welchs_interval(tmp_path: Path) -> None:
    ours, theirs = (1.0, 1.1, 0.95), (2.0, 2.1, 1.9)
    sweep = Sweep(tmp_path)
    sweep.drafter()
    for repeat, (mine, base) in enumerate(zip(ours, theirs, strict=True), 1):
        sweep.cell("drafter", same(6, latency_s=mine, accepted=DRAFTED), repeat=repeat)
        sweep.cell("baseline", same(6, latency_s=base), repeat=repeat)
    load = load_of(sweep)
    sides = [np.array([9 / t for t in one]) for one in (ours, theirs)]
    expected = stats.ttest_ind(
        *(one / one.mean() for one in sides), equal_var=False
    ).confidence_interval(0.95)
    ratio = sides[0].mean() / sides[1].mean()
    interval = load.throughput.interval
    assert interval is not None
    assert interval.low == pytest.approx(ratio * float(np.exp(expected.low)))
    assert interval.high == pytest.approx(ratio * float(np.exp(expected.high)))
    assert interval.method == "t interval over 3 and 3 repeats"
    # mean over repeats, not over requests of all
    assert load.throughput.value == pytest.approx(
        sum(9 / t for t in ours) / sum(9 / t for t in theirs)
    )
    assert len(load.paths) == 6


def test_too_few_rows_have_no_interval(tmp_path: Path) -> None:
    load = load_of(pair(tmp_path, same(4, accepted=DRAFTED), same(4, latency_s=2.0)))
    assert load.throughput.value == pytest.approx(2.0)
    assert load.throughput.judgement is Judgement.NOT_KNOWN


def test_no_pair_no_ratio(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.drafter()
    sweep.cell("drafter", same(8, accepted=DRAFTED), 2)
    load = load_of(sweep)
    assert load.throughput.value is None
    assert load.throughput.unavailable == "no cell of baseline has the same prompts and concurrency"
    assert load.throughput.judgement is Judgement.UNAVAILABLE


def test_a_failed_side_gives_no_ratio_and_its_reason(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.drafter()
    sweep.cell("drafter", same(8, accepted=DRAFTED))
    broken = [*same(7), Request(row="rows/7", error="out of memory")]
    sweep.cell("baseline", broken)
    load = load_of(sweep)
    assert load.theirs == ()
    assert "baseline-code-c1-r1 is FAILED: 1 of 8 failed" in str(load.throughput.unavailable)


def test_answers_of_another_length_refuse_the_pair(tmp_path: Path) -> None:
    # 8 x 9 = 72 against 8 x 12 = 96 tokens: 25 % of the baseline's apart
    load = load_of(pair(tmp_path, same(8, accepted=DRAFTED), same(8, tokens=12, latency_s=2.0)))
    assert load.lengths is not None
    assert load.throughput.value is None
    assert "72 output tokens against 96 of the baseline, 25 % apart" in str(
        load.throughput.unavailable
    )


def test_a_slower_drafter_is_counted_not_hidden(tmp_path: Path) -> None:
    sweep = pair(tmp_path, same(8, latency_s=3.0, accepted=DRAFTED), same(8, latency_s=2.0))
    found = conclude(measure_run(sweep.write()))
    counts = counted(found.comparisons)
    assert counts[Judgement.BELOW] == 1
    assert sum(counts.values()) == 1


def test_a_refused_cell_is_in_nothing(tmp_path: Path) -> None:
    """A validity rule (positions against the length) takes a cell out although it succeeded."""
    sweep = pair(tmp_path, same(8, accepted=DRAFTED), same(8, latency_s=2.0))
    root = sweep.write()
    path = root / "cells/drafter-code-c1-r1/attempt-1/load/aiperf/profile_export.jsonl"
    # the histogram loses a step: positions no longer add up to the length
    path.write_text(path.read_text().replace('{"3": 2}', '{"3": 1}'))
    run = measure_run(root)
    (left_out,) = run.left_out
    assert left_out.reason is Reason.COUNTERS_DISAGREE
    assert left_out.message.startswith("refused by the rule marginals:")
    found = conclude(run)
    assert found.acceptance == ()
    assert found.comparisons[0].loads[0].throughput.value is None
    assert [attempt.cell.server for attempt in run.included] == ["baseline"]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 150)), min_size=5, max_size=40))
def test_an_interval_lies_around_its_figure(rows: list[tuple[int, int]]) -> None:
    sums = np.array([(steps + accepted, steps) for steps, accepted in rows], dtype=float)
    interval = ratio_interval(sums)
    assert interval is not None
    value = sums[:, 0].sum() / sums[:, 1].sum()
    spread = interval.high - interval.low
    assert interval.low - spread <= value <= interval.high + spread
    of_rows = sums[:, 0] / sums[:, 1]
    assert of_rows.min() - 1e-9 <= interval.low <= interval.high <= of_rows.max() + 1e-9
    assert ratio_interval(sums) == interval


def test_an_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    # rows from a known distribution: Σ a / Σ b tends to 2; 95 % intervals of 60 rows each
    random = np.random.default_rng(7)
    held = 0
    for _ in range(200):
        b = random.uniform(1, 3, size=60)
        a = 2 * b * random.uniform(0.5, 1.5, size=60)
        interval = ratio_interval(np.stack([a, b], axis=1))
        assert interval is not None
        held += interval.holds(2.0)
    # binomial(200, 0.95): 180 is four standard deviations below
    assert 180 <= held <= 200


def test_draws_are_the_same_each_time_and_add_up() -> None:
    once = draws(12)
    assert (once.sum(axis=1) == 12).all()
    draws.cache_clear()
    assert (draws(12) == once).all()


def test_many_rows_are_drawn_in_groups() -> None:
    random = np.random.default_rng(3)
    sums = random.uniform(1, 2, size=(5000, 2))
    interval = ratio_interval(sums)
    assert interval is not None
    assert interval.low < sums[:, 0].sum() / sums[:, 1].sum() < interval.high
    assert interval.method == "bootstrap over 5,000 rows"


def test_repeats_that_never_vary_have_a_point_for_an_interval() -> None:
    interval = repeats_interval([4.0, 4.0, 4.0], [2.0, 2.0, 2.0])
    assert interval is not None
    assert (interval.low, interval.high) == (pytest.approx(2.0), pytest.approx(2.0))
    assert repeats_interval([4.0, 4.0], [2.0, 2.0, 2.0]) is None


def test_turns_of_a_row_are_one_row(tmp_path: Path) -> None:
    turns = [
        Request(row=f"r{i}", turn=turn, accepted=[i % 4] * 2, tokens=2 * (i % 4) + 3)
        for i in range(5)
        for turn in (0, 1)
    ]
    sweep = Sweep(tmp_path)
    sweep.drafter()
    sweep.cell("drafter", turns)
    (attempt,) = measure_run(sweep.write()).included
    ids = [row.id for row in attempt.cell.rows]
    sums = acceptance_sums([(attempt.requests, ids)])
    # steps, steps + accepted, accepted, drafted: two turns of two steps each
    assert sums.tolist() == [[4, 4 + 4 * (i % 4), 4 * (i % 4), 12] for i in range(5)]
    ones = np.ones(len(attempt.requests))
    assert row_sums(attempt.requests, ["r3", "no such row"], ones).tolist() == [[2.0], [0.0]]

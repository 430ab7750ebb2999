"""Intervals: their end points by hand, and what must change nothing, alone and in whole runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from runner.analysis.measured import MeasuredAttempt, measure_run
from runner.analysis.replicates import replicates
from runner.analysis.requests import RequestColumns
from runner.analysis.resampling import (
    LEAST_ROWS,
    MOST_GROUPS,
    RESAMPLES,
    acceptance_sums,
    draws,
    grouped,
    middle,
    ratio_interval,
    repeats_interval,
    resampled,
    row_sums,
)
from runner.analysis.speedup import Judgement, LoadPair, Ratio, compare_speed
from tests.unit.analysis.sweep import Request, Sweep, same

DRAFTED = (3, 3)
FEW = settings(max_examples=12, deadline=None, derandomize=True)
MANY = settings(max_examples=60, deadline=None, derandomize=True)
TIMES = st.lists(st.integers(2, 20), min_size=5, max_size=9)
"""Latencies in tenths of a second."""


def sweep_in(factory: pytest.TempPathFactory) -> Sweep:
    sweep = Sweep(factory.mktemp("run"))
    sweep.drafter()
    return sweep


def timed(tenths: Sequence[int], accepted: Sequence[int] | None = None) -> list[Request]:
    return [
        Request(row=f"r{i}", latency_s=time / 10, ttft_s=time / 50, accepted=accepted)
        for i, time in enumerate(tenths)
    ]


def load_of(sweep: Sweep) -> LoadPair:
    ((load,),) = (one.loads for one in compare_speed(measure_run(sweep.write())))
    return load


def ratios_of(
    factory: pytest.TempPathFactory, ours: Sequence[Request], theirs: Sequence[Request]
) -> dict[str, Ratio]:
    sweep = sweep_in(factory)
    sweep.cell("baseline", theirs)
    sweep.cell("drafter", ours)
    load = load_of(sweep)
    return {"throughput": load.throughput, "seen": load.interactivity, "ttft": load.ttft}


def close(ours: Ratio, theirs: Ratio) -> bool:
    assert ours.interval is not None and theirs.interval is not None
    return [ours.value, ours.interval.low, ours.interval.high] == pytest.approx(
        [theirs.value, theirs.interval.low, theirs.interval.high], rel=1e-9
    )


def test_the_middle_of_known_values() -> None:
    # 2.5 % and 97.5 % of the way from 0 to 2000
    found = middle(np.arange(2001.0)[::-1], "by hand")
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(50.0), pytest.approx(1950.0))
    assert found.method == "by hand"
    assert found.holds(50.1) and found.holds(1949.9)
    assert not found.holds(49.9) and not found.holds(1950.1)


def test_values_that_do_not_exist_leave_no_interval_when_they_are_many() -> None:
    values = np.full(2000, 3.0)
    values[:100] = np.nan  # 5 % are missing, 95 % exist
    assert middle(values, "") is not None
    values[100] = np.inf
    assert middle(values, "") is None
    assert middle(np.array([]), "") is None


def test_a_sample_is_what_the_draws_say() -> None:
    # one column for each row, 1 in its own row alone: the sums are the draws themselves
    found = resampled(np.eye(6))
    assert found is not None
    assert (found == draws(6)).all()
    assert found.shape == (RESAMPLES, 6)
    # each row is in a sample once on average: 2000 draws of variance 5 / 6 leave 0.02 of error
    assert found.mean(axis=0) == pytest.approx(np.ones(6), abs=0.1)
    assert resampled(np.ones((LEAST_ROWS - 1, 2))) is None


def test_rows_above_the_limit_share_a_group_with_none_lost() -> None:
    sums = np.arange(2.0 * (MOST_GROUPS + 3)).reshape(-1, 2)
    found = grouped(sums)
    assert len(found) == MOST_GROUPS
    # row 2000 lies in group 0, and group 3 has its own row alone
    assert found[0].tolist() == (sums[0] + sums[MOST_GROUPS]).tolist()
    assert found[3].tolist() == sums[3].tolist()
    assert found.sum(axis=0).tolist() == sums.sum(axis=0).tolist()
    assert grouped(sums[:MOST_GROUPS]) is not None and len(grouped(sums[:5])) == 5


def test_rows_that_are_all_alike_have_a_point_for_an_interval() -> None:
    found = ratio_interval(np.tile([6.0, 4.0], (7, 1)))
    assert found is not None
    assert (found.low, found.high, found.method) == (1.5, 1.5, "bootstrap over 7 rows")
    assert ratio_interval(np.tile([6.0, 0.0], (7, 1))) is None


@MANY
@given(st.integers(10, 60), st.integers(0, 10_000), st.floats(0.01, 100))
def test_an_interval_holds_its_figure_and_scales_with_it(rows: int, seed: int, c: float) -> None:
    sums = np.random.default_rng(seed).uniform(1, 3, size=(rows, 2))
    found, scaled = ratio_interval(sums), ratio_interval(sums * [c, 1])
    assert found is not None and scaled is not None
    assert found.low < sums[:, 0].sum() / sums[:, 1].sum() < found.high
    assert (scaled.low, scaled.high) == pytest.approx((c * found.low, c * found.high))


def test_welch_by_hand() -> None:
    # means 2 and 4, variances 1 and 4: log(mean) has 1 / (3 x 4) and 4 / (3 x 16), both 1 / 12; the
    # ratio has 1 / 6; freedom (1/6)² / ((1/12)² / 2 + (1/12)² / 2) = 4.
    # t(97.5 %, 4) = 2.776445 and 2.776445 x √(1/6) = 1.133479, around log(2 / 4)
    found = repeats_interval([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    assert found is not None
    centre = np.log(0.5)
    expected = [centre - 1.133479, centre + 1.133479]
    assert np.log([found.low, found.high]) == pytest.approx(expected, abs=1e-6)
    assert found.method == "t interval over 3 and 3 repeats"


POSITIVE = st.lists(st.floats(0.5, 5.0), min_size=3, max_size=6, unique=True)


@MANY
@given(POSITIVE, POSITIVE)
def test_welch_is_scipys_and_turns_over_with_its_sides(
    ours: list[float], theirs: list[float]
) -> None:
    found, back = repeats_interval(ours, theirs), repeats_interval(theirs, ours)
    assert found is not None and back is not None
    # each side by its own mean: the standard errors are then those of the means' logarithms
    scaled = (np.array(one) / np.mean(one) for one in (ours, theirs))
    told = stats.ttest_ind(*scaled, equal_var=False).confidence_interval(0.95)
    centre = np.log(np.mean(ours) / np.mean(theirs))
    expected = [centre + told.low, centre + told.high]
    assert np.log([found.low, found.high]) == pytest.approx(expected, abs=1e-6)
    assert found.low < np.mean(ours) / np.mean(theirs) < found.high, "it holds its own figure"
    assert (back.low, back.high) == pytest.approx((1 / found.high, 1 / found.low))
    turned = repeats_interval(ours[::-1], theirs[::-1])
    assert turned is not None and turned.low == pytest.approx(found.low)


def test_repeats_without_a_logarithm_or_too_few_tell_nothing() -> None:
    assert repeats_interval([1.0, 2.0, 0.0], [1.0, 2.0, 3.0]) is None
    assert repeats_interval([1.0, 2.0, 3.0], [1.0, 2.0]) is None
    assert repeats_interval([], []) is None


ROWS = st.permutations([(f"r{i}", turn, i + 7 * turn) for i in range(4) for turn in range(2)])


@MANY
@given(ROWS)
def test_the_order_of_requests_changes_no_row(requests: list[tuple[str, int, int]]) -> None:
    columns = RequestColumns()
    columns.ids += "".join(f"{row}\n" for row, _, _ in requests).encode()
    columns.turn.extend(turn for _, turn, _ in requests)
    values = np.array([value for _, _, value in requests], dtype=float)
    # i + (i + 7); r9 has no request, and r2 is not asked for
    found = row_sums(columns, ["r3", "r0", "r9", "r1"], values, 2 * values)
    assert found.tolist() == [[13, 26], [7, 14], [0, 0], [9, 18]]


def test_the_order_of_cells_changes_no_acceptance(tmp_path_factory: pytest.TempPathFactory) -> None:
    sweep = sweep_in(tmp_path_factory)
    for repeat in (1, 2, 3):
        accepted = [[(i + repeat) % 4] * 2 for i in range(6)]
        requests = [
            Request(row=f"r{i}", accepted=one, tokens=3 + sum(one))
            for i, one in enumerate(accepted)
        ]
        sweep.cell("drafter", requests, repeat=repeat)
    cells = [
        (one.requests, [row.id for row in one.cell.rows])
        for one in measure_run(sweep.write()).included
    ]
    sums = [acceptance_sums(order) for order in permutations(cells)]
    assert len(sums) == 6
    assert all((one == sums[0]).all() for one in sums)
    # row 0 accepted 2 x (1 + 2 + 3) in 6 steps of 3 drafts
    assert sums[0][0].tolist() == [6, 18, 12, 18]
    assert acceptance_sums([]).shape == (0, 4)


def attempts_of(sweep: Sweep) -> tuple[MeasuredAttempt, ...]:
    return measure_run(sweep.write()).included


def test_replicates_of_equal_rows_are_the_figures(tmp_path_factory: pytest.TempPathFactory) -> None:
    # two at a time, 9 tokens in 0.5 s each: 36 tok/s; ITL (0.5 - 0.1) / 8 = 50 ms
    sweep = sweep_in(tmp_path_factory)
    sweep.cell("baseline", same(8, latency_s=0.5, ttft_s=0.1), 2)
    found = replicates(attempts_of(sweep))
    assert found is not None
    assert found.throughput == pytest.approx(np.full(RESAMPLES, 36.0))
    assert found.interactivity == pytest.approx(np.full(RESAMPLES, 20.0))
    assert found.ttft_ms == pytest.approx(np.full(RESAMPLES, 100.0))


def test_repeats_are_drawn_and_their_mean_counts(tmp_path_factory: pytest.TempPathFactory) -> None:
    sweep = sweep_in(tmp_path_factory)
    for repeat, latency in ((1, 1.0), (2, 0.5)):
        sweep.cell("baseline", same(5, latency_s=latency), repeat=repeat)
    both = attempts_of(sweep)
    found = replicates(both)
    assert found is not None
    # 9 and 18 tok/s: both drawn from the first, one of each, both from the second
    values, counts = np.unique(found.throughput.round(6), return_counts=True)
    assert values.tolist() == [9.0, 13.5, 18.0]
    # a quarter, a half, a quarter of 2000; four standard deviations are 90
    assert counts == pytest.approx([500, 1000, 500], abs=90)
    # one repeat that can't be drawn from leaves nothing to say about the mean
    assert replicates([both[0], replace(both[1], requests=RequestColumns())]) is None
    assert replicates([]) is None


@FEW
@given(TIMES)
def test_equal_rows_on_both_sides_show_no_difference(
    tmp_path_factory: pytest.TempPathFactory, tenths: list[int]
) -> None:
    found = ratios_of(tmp_path_factory, timed(tenths, DRAFTED), timed(tenths))
    for ratio in found.values():
        assert ratio.value == 1.0
        assert ratio.judgement is Judgement.NO_DIFFERENCE


@FEW
@given(TIMES, st.integers(2, 20), st.randoms(use_true_random=False))
def test_neither_the_order_of_requests_nor_the_unit_of_time_changes_a_ratio(
    tmp_path_factory: pytest.TempPathFactory, tenths: list[int], c: int, random
) -> None:
    theirs, ours = timed(tenths), timed([*tenths[1:], 7], DRAFTED)
    plain = ratios_of(tmp_path_factory, ours, theirs)
    mixed = ratios_of(
        tmp_path_factory, random.sample(ours, len(ours)), random.sample(theirs, len(theirs))
    )
    slow = [
        [replace(one, latency_s=c * one.latency_s, ttft_s=c * one.ttft_s) for one in side]
        for side in (ours, theirs)
    ]
    slower = ratios_of(tmp_path_factory, *slow)
    for name, ratio in plain.items():
        assert close(mixed[name], ratio)
        assert close(slower[name], ratio)


def test_c_times_the_time_is_a_cth_of_the_throughput(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    sweep = sweep_in(tmp_path_factory)
    for repeat, c in enumerate((1, 4), 1):
        sweep.cell("baseline", timed([c * time for time in (3, 5, 8, 13, 21)]), repeat=repeat)
    first, second = (one.figure("output_token_throughput") for one in attempts_of(sweep))
    # 45 tokens in 5 s, then in 20 s
    assert first is not None and first.value == pytest.approx(9.0)
    assert second is not None and second.value == pytest.approx(9.0 / 4)

"""Equal interactivity and throughput, break-even, best k: inside the measured range only."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.analysis.conclusions import Conclusions, conclude
from runner.analysis.measured import measure_run
from runner.analysis.speedup import Judgement
from runner.analysis.tradeoff import Held, reached
from runner.models.plan import PlannedRow
from tests.unit.analysis.sweep import Request, Sweep, same

DRAFTED = (3, 3)


def concluded(
    tmp_path: Path, ours: dict[int, float], theirs: dict[int, float], rows: int = 16
) -> Conclusions:
    """Latency in s by concurrency. With 9 tokens and TTFT a fifth of the latency L, ITL is L / 10
    and interactivity 10 / L; throughput is 9 x concurrency / L."""
    sweep = Sweep(tmp_path)
    sweep.drafter()
    for server, times in (("baseline", theirs), ("drafter", ours)):
        for concurrency, latency in times.items():
            accepted = DRAFTED if server == "drafter" else None
            requests = same(rows, latency_s=latency, ttft_s=latency / 5, accepted=accepted)
            sweep.cell(server, requests, concurrency)
    return conclude(measure_run(sweep.write()))


def test_equal_interactivity_by_hand(tmp_path: Path) -> None:
    # baseline: concurrency 1 -> L 1.0 (interactivity 10, 9 tok/s), 2 -> L 1.25 (8, 14.4 tok/s)
    # drafter:  concurrency 1 -> L 0.8 (12.5, 11.25), 2 -> L 1.25 (8, 14.4) and 4 -> 2.0 (5, 18)
    found = concluded(tmp_path, {1: 0.8, 2: 1.25, 4: 2.0}, {1: 1.0, 2: 1.25})
    (one,) = found.tradeoffs
    at = {point.at: point for point in one.equal if point.held is Held.INTERACTIVITY}
    # both ranges hold 8 to 10: 5 and 12.5 lie outside of the baseline's
    assert sorted(at) == [pytest.approx(8.0), pytest.approx(10.0)]
    ten = at[max(at)]
    assert ten.theirs == pytest.approx(9.0)
    # between (12.5, 11.25) and (8, 14.4): 11.25 + (12.5 - 10) / 4.5 * 3.15 = 13.0
    assert ten.ours == pytest.approx(13.0)
    assert ten.ratio.value == pytest.approx(13.0 / 9.0)
    eight = at[min(at)]
    assert eight.ratio.value == pytest.approx(1.0)
    interval = ten.ratio.interval
    # equal rows: every draw gives the same curves
    assert interval is not None and interval.low == pytest.approx(13.0 / 9.0)


def test_equal_throughput_by_hand(tmp_path: Path) -> None:
    found = concluded(tmp_path, {1: 0.8, 2: 1.25}, {1: 1.0, 2: 1.25})
    (one,) = found.tradeoffs
    at = {point.at: point for point in one.equal if point.held is Held.THROUGHPUT}
    # both hold 11.25 to 14.4; there the baseline has 10 - (11.25 - 9) / 5.4 * 2 = 9.1667
    point = at[min(at)]
    assert point.at == pytest.approx(11.25)
    assert point.theirs == pytest.approx(10 - 2.25 / 5.4 * 2)
    assert point.ratio.value == pytest.approx(12.5 / (10 - 2.25 / 5.4 * 2))


def test_ranges_that_do_not_meet(tmp_path: Path) -> None:
    found = concluded(tmp_path, {1: 0.1, 2: 0.12}, {1: 1.0, 2: 1.25})
    (one,) = found.tradeoffs
    assert one.equal == ()
    assert one.unavailable == "the measured ranges of both sides do not meet"


def test_one_point_is_no_curve(tmp_path: Path) -> None:
    found = concluded(tmp_path, {1: 0.8}, {1: 1.0, 2: 1.25})
    assert "1 points of drafter and 2 of baseline" in str(found.tradeoffs[0].unavailable)


@given(
    st.lists(
        st.tuples(st.floats(0.1, 100), st.floats(0.1, 100)), min_size=2, max_size=6, unique=True
    ),
    st.floats(0.01, 200),
)
def test_nothing_is_read_beyond_the_range(points: list[tuple[float, float]], at: float) -> None:
    xs, ys = zip(*points, strict=True)
    found = reached(xs, ys, at)
    if min(xs) <= at <= max(xs):
        assert found is not None
        assert min(ys) - 1e-6 <= found <= max(ys) + 1e-6
    else:
        assert found is None


def test_where_a_curve_bends_back_its_best_value_counts() -> None:
    # up to (10, 5), back to (4, 9): at 6 the way out has 3, the way back 9 - 2 / 6 * 4
    assert reached([2, 10, 4], [1, 5, 9], 6) == pytest.approx(9 - 2 / 6 * 4)


def test_break_even_on_a_logarithmic_axis(tmp_path: Path) -> None:
    # ratio 2 at concurrency 1 and 0.5 at 16 (limits: 1 / 2, 1 / 0.5); crossing where
    # log2(c) = (2 - 1) / (2 - 0.5) * 4 = 2.6667: c = 6.35
    found = concluded(tmp_path, {1: 0.5, 16: 2.0}, {1: 1.0, 16: 1.0})
    (one,) = found.break_evens
    assert one.concurrency == pytest.approx(2 ** (4 / 1.5))
    assert one.between == (1, 16)
    assert one.text == "falls below 1 at about 6.35, between 1 and 16"


@pytest.mark.parametrize(
    ("ours", "text"),
    [
        ({1: 0.5, 2: 0.5}, "above 1 at every measured concurrency (1 to 2)"),
        ({1: 2.0, 2: 2.0}, "not above 1 at every measured concurrency (1 to 2)"),
        ({1: 0.5}, "above 1 at the one measured concurrency (1)"),
    ],
)
def test_no_crossing_no_number(tmp_path: Path, ours: dict[int, float], text: str) -> None:
    found = concluded(tmp_path, ours, dict.fromkeys(ours, 1.0))
    assert found.break_evens[0].text == text
    assert found.break_evens[0].concurrency is None


def test_best_length_names_those_that_can_not_be_told_apart(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.cell("baseline", same(8))
    for name, k, latency in (("k2", 2, 0.5), ("k3", 3, 0.5), ("k5", 5, 0.9)):
        sweep.drafter(name, k)
        sweep.cell(name, same(8, latency_s=latency, ttft_s=0.1, accepted=(1, 1), k=k, tokens=9))
    found = conclude(measure_run(sweep.write()))
    (best,) = found.best_lengths
    # k = 2 and k = 3 are equally fast: the shorter one is named, the other is no worse
    assert (best.k, best.rivals, best.unknown) == (2, (3,), ())
    assert best.throughput == pytest.approx(18.0)
    assert {one.name for one in found.comparisons} == {"k2", "k3", "k5"}
    assert all(one.loads[0].throughput.judgement is Judgement.ABOVE for one in found.comparisons)


def test_a_pair_of_other_work_is_on_no_curve(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.drafter()
    for concurrency in (1, 2):
        # 9 against 12 tokens an answer: 25 % apart, the pair is refused
        sweep.cell("baseline", same(16, tokens=12), concurrency)
        sweep.cell("drafter", same(16, latency_s=0.8, accepted=DRAFTED), concurrency)
    found = conclude(measure_run(sweep.write()))
    assert [load.throughput.value for load in found.comparisons[0].loads] == [None, None]
    assert found.tradeoffs[0].equal == ()
    assert all(ratio.value is None for ratio in found.ratios.values())


def test_rows_that_nobody_shares_give_no_ratio(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.drafter()
    rows = [PlannedRow(id=f"r{i}") for i in range(10)]
    for server, first, accepted in (("baseline", 0, None), ("drafter", 5, DRAFTED)):
        requests = [Request(row=f"r{first + i}", accepted=accepted) for i in range(5)]
        sweep.cell(server, requests, rows=rows, duration_s=60.0)
    (load,) = conclude(measure_run(sweep.write())).comparisons[0].loads
    assert load.throughput.unavailable == "no row was answered on both sides"


def test_rows_that_were_not_reached_are_none_to_draw_from(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.drafter()
    rows = [PlannedRow(id=f"rows/{i}") for i in range(20)]
    for server, accepted in (("baseline", None), ("drafter", DRAFTED)):
        sweep.cell(server, same(3, accepted=accepted), rows=rows, duration_s=60.0)
    found = conclude(measure_run(sweep.write()))
    (load,) = found.comparisons[0].loads
    assert load.throughput.judgement is Judgement.NOT_KNOWN
    assert found.acceptance[0].measurements[0].interval is None


def test_lengths_of_other_baselines_are_not_ranked_together(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.run.server("fp8")
    for name, k, base in (("k2", 2, "baseline"), ("k5", 5, "fp8")):
        sweep.drafter(name, k)
        sweep.run.change_server(name, baseline=base)
        sweep.cell(name, same(8, accepted=(1, 1), k=k))
        sweep.cell(base, same(8))
    assert conclude(measure_run(sweep.write())).best_lengths == ()


def test_streams_in_lumps_have_a_throughput_ratio_and_no_point(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.drafter()
    for concurrency in (1, 2):
        # no time between tokens: the whole answer came in one piece
        lumps = same(16, latency_s=0.5, ttft_s=0.5, accepted=DRAFTED)
        sweep.cell("drafter", lumps, concurrency)
        sweep.cell("baseline", same(16), concurrency)
    found = conclude(measure_run(sweep.write()))
    (comparison,) = found.comparisons
    assert [load.throughput.value for load in comparison.loads] == [pytest.approx(2.0)] * 2
    assert all(load.interactivity.value is None for load in comparison.loads)
    assert found.tradeoffs[0].ours == ()
    assert "0 points of drafter" in str(found.tradeoffs[0].unavailable)

"""Where a drafter stops paying off, and which draft length is best."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.analysis.conclusions import conclude
from runner.analysis.interval import Interval
from runner.analysis.loads import BestLength, best_lengths, break_even
from runner.analysis.measured import measure_run
from runner.analysis.speedup import Comparison, Judgement, LoadPair, Ratio, compare_speed, counted
from tests.fixtures.run_folder import server_plan
from tests.unit.analysis.sweep import Request, Sweep, eagle, same

MANY = settings(max_examples=80, deadline=None, derandomize=True)
NONE = Ratio(None, unavailable="not measured")


def near(value: float) -> Interval:
    return Interval(value - 0.01, value + 0.01, "by hand")


def compared(loads: Sequence[tuple[int, Ratio]]) -> Comparison:
    return Comparison(
        "code",
        server_plan("drafter", eagle()),
        server_plan("baseline"),
        tuple(LoadPair(load, (), (), ratio, NONE, NONE) for load, ratio in loads),
    )


def sure(values: dict[int, float]) -> Comparison:
    return compared([(load, Ratio(value, near(value))) for load, value in values.items()])


def test_half_way_lies_at_the_geometric_mean() -> None:
    # 1.5 at 2 and 0.5 at 32: half of the way from 2^1 to 2^5 is 2^3
    found = break_even(sure({2: 1.5, 32: 0.5}))
    assert found.concurrency == pytest.approx(8.0)
    assert found.text == "falls below 1 at about 8, between 2 and 32"


def test_a_quarter_of_the_way_and_upwards() -> None:
    # (1 - 0.75) / (1.75 - 0.75) = 1 / 4 of the way from 2^0 to 2^4
    found = break_even(sure({1: 0.75, 16: 1.75}))
    assert found.concurrency == pytest.approx(2.0)
    assert found.text == "rises above 1 at about 2, between 1 and 16"


def test_the_highest_of_several_crossings_counts() -> None:
    found = break_even(sure({1: 1.5, 2: 0.5, 4: 1.5, 8: 0.5}))
    assert found.between == (4, 8)
    assert found.concurrency == pytest.approx(4 * 2**0.5)


def test_loads_without_a_ratio_are_passed_over() -> None:
    loads = [(1, NONE), (2, Ratio(1.5, near(1.5))), (4, NONE), (8, Ratio(0.5, near(0.5)))]
    found = break_even(compared([*loads, (16, NONE)]))
    assert (found.concurrency, found.between) == (pytest.approx(4.0), (2, 8))
    none = break_even(compared([(1, NONE), (2, NONE)]))
    assert (none.text, none.concurrency) == ("no throughput ratio", None)


def test_an_interval_that_reaches_one_is_said() -> None:
    wide = Ratio(1.5, Interval(0.9, 2.1, "by hand"))
    found = break_even(compared([(1, wide), (2, Ratio(0.5, near(0.5)))]))
    assert found.text.endswith("; the interval of one of these reaches 1")
    # elsewhere it does not matter
    found = break_even(
        compared([(1, wide), *((n, Ratio(r, near(r))) for n, r in ((2, 2), (4, 0.5)))])
    )
    assert found.text == "falls below 1 at about 3.17, between 2 and 4"


LOADS = st.dictionaries(st.integers(1, 256), st.floats(0.1, 10), min_size=1, max_size=6)


@MANY
@given(LOADS)
def test_break_even_is_where_the_line_crosses_one_and_nowhere_else(
    values: dict[int, float],
) -> None:
    ordered = dict(sorted(values.items()))
    found = break_even(sure(ordered))
    crosses = len({value > 1 for value in ordered.values()}) == 2
    assert (found.concurrency is not None) is crosses
    if found.concurrency is None or found.between is None:
        return
    low, high = found.between
    loads = list(ordered)
    assert loads.index(high) == loads.index(low) + 1
    assert min(loads) <= low <= found.concurrency * (1 + 1e-9)
    assert found.concurrency <= high * (1 + 1e-9) <= max(loads) * (1 + 1e-9)
    share = (log2(found.concurrency) - log2(low)) / (log2(high) - log2(low))
    at = ordered[low] + share * (ordered[high] - ordered[low])
    assert at == pytest.approx(1.0, abs=1e-6)
    # above the highest crossing the ratio stays on its side
    assert len({ordered[load] > 1 for load in loads if load >= high}) == 1


@MANY
@given(LOADS)
def test_every_load_is_counted_once_and_none_below_one_is_lost(values: dict[int, float]) -> None:
    counts = counted([sure(values), compared([(1, NONE), (2, Ratio(0.5))])])
    assert set(counts) == set(Judgement)
    assert sum(counts.values()) == len(values) + 2
    assert counts[Judgement.BELOW] == sum(value + 0.01 < 1 for value in values.values())
    assert counts[Judgement.ABOVE] == sum(value - 0.01 > 1 for value in values.values())
    assert (counts[Judgement.UNAVAILABLE], counts[Judgement.NOT_KNOWN]) == (1, 1)


def lengths(tmp_path: Path, latencies: dict[str, tuple[int, list[float]]]) -> Sweep:
    """Drafters by name: k and the latency of each repeat; a baseline beside them."""
    sweep = Sweep(tmp_path)
    for name, (k, times) in latencies.items():
        sweep.drafter(name, k)
        for repeat, time in enumerate(times, 1):
            requests = same(8, latency_s=time, ttft_s=0.1, accepted=(1, 1), k=k)
            sweep.cell(name, requests, repeat=repeat)
    sweep.cell("baseline", same(8))
    return sweep


def found_in(sweep: Sweep) -> tuple[BestLength, ...]:
    return conclude(measure_run(sweep.write())).best_lengths


def test_repeats_decide_which_lengths_stand_with_the_best(tmp_path: Path) -> None:
    # k = 3 was slower than k = 5 each time, but three repeats vary more than that: Welch says
    # nothing, although no draw of these repeats would reach 1. k = 1 is far behind
    sweep = lengths(
        tmp_path, {"k1": (1, [0.9, 0.91, 0.92]), "k3": (3, [0.52, 0.6, 0.7]), "k5": (5, [0.5] * 3)}
    )
    (best,) = found_in(sweep)
    assert (best.k, best.rivals, best.unknown) == (5, (3,), ())
    # 9 tokens in 0.5 s
    assert best.throughput == pytest.approx(18.0)
    assert best.paths == tuple(f"cells/k5-code-c1-r{repeat}/attempt-1" for repeat in (1, 2, 3))


def test_a_failed_length_is_not_the_best(tmp_path: Path) -> None:
    sweep = lengths(tmp_path, {"k2": (2, [0.8]), "k3": (3, [0.9])})
    sweep.drafter("k5", 5)
    broken = Request(row="rows/7", error="out of memory")
    sweep.cell("k5", [*same(7, latency_s=0.01, ttft_s=0.001, accepted=(1, 1), k=5), broken])
    (best,) = found_in(sweep)
    assert (best.k, best.rivals, best.unknown) == (2, (), ())


def test_one_length_is_no_choice(tmp_path: Path) -> None:
    assert found_in(lengths(tmp_path, {"k2": (2, [0.8])})) == ()


def test_lengths_of_another_checkpoint_are_another_family(tmp_path: Path) -> None:
    sweep = lengths(tmp_path, {"k2": (2, [0.8]), "k3": (3, [0.9])})
    other = eagle(5).model_copy(update={"model": "/other"})
    sweep.run.server("other", other)
    sweep.cell("other", same(8, latency_s=0.2, ttft_s=0.1, accepted=(1, 1), k=5))
    adaptive = eagle(4).model_copy(update={"enable_adaptive_verification": True})
    sweep.run.server("adaptive", adaptive)
    sweep.cell("adaptive", same(8, latency_s=0.2, ttft_s=0.1, accepted=(1, 1), k=4))
    (best,) = found_in(sweep)
    assert best.k == 2


def test_a_server_that_differs_in_more_than_the_drafter_is_no_candidate(tmp_path: Path) -> None:
    sweep = lengths(tmp_path, {"k2": (2, [0.8]), "k3": (3, [0.9]), "k5": (5, [0.2])})
    container = sweep.run.servers["k5"].container
    changed = container.model_copy(update={"environment": {"VLLM_LOGGING_LEVEL": "DEBUG"}})
    sweep.run.change_server("k5", container=changed)
    comparisons = compare_speed(measure_run(sweep.write()))
    (best,) = best_lengths(comparisons)
    assert best.k == 2
    assert [one.not_comparable is None for one in comparisons] == [True, True, False]


def test_lengths_that_can_not_be_drawn_from_are_named(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    for k in (2, 3):
        sweep.drafter(f"k{k}", k)
        sweep.cell(f"k{k}", same(4, latency_s=k / 10, ttft_s=0.1, accepted=(1, 1), k=k))
    (best,) = found_in(sweep)
    assert (best.k, best.rivals, best.unknown) == (2, (), (3,))

"""Counts and bounds of a plan; hours only where earlier runs tell the pace."""

from __future__ import annotations

import pytest

from runner.models.plan import PlannedRow
from runner.plan.estimate import NO_PACE, CellLoad, Pace, estimate
from runner.plan.evaluation import resolve

from .test_evaluation import MTP, make

PACE = Pace("2 earlier runs", server_ready_s=60, cell_overhead_s=5, tokens_per_s={4: 100, 16: 300})


def load(*rows: PlannedRow, concurrency: int = 4, duration_s: float | None = None) -> CellLoad:
    return CellLoad(rows, concurrency, 50, duration_s)


def row(turns: int, tokens: int | None) -> PlannedRow:
    return PlannedRow(id="d/1", turns=turns, prompt_tokens=tokens)


def test_prompts_of_later_turns_hold_the_answers_before_them() -> None:
    # one turn: 10; three turns of at most 20, with no, one and two answers of 50 before them
    found = estimate(1, [load(row(1, 10), row(3, 20))], None)
    assert found.prompt_tokens == 10 + 3 * 20 + 3 * 50
    assert (found.requests, found.output_tokens) == (4, 200)
    assert estimate(1, [load(row(1, 10), row(1, None))], None).prompt_tokens is None


@pytest.mark.parametrize(("concurrency", "rate"), [(1, 100), (4, 100), (15, 100), (64, 300)])
def test_the_pace_is_that_of_the_nearest_concurrency_below(concurrency: int, rate: float) -> None:
    assert PACE.rate(concurrency) == rate


def test_hours_come_from_a_pace_alone() -> None:
    cells = [load(row(3, 1)), load(row(3, 1), concurrency=16)]
    assert (estimate(2, cells, None).hours, estimate(2, cells, None).hours_source) == (
        None,
        NO_PACE,
    )
    found = estimate(2, cells, PACE)
    seconds = 2 * 60 + (5 + 150 / 100) + (5 + 150 / 300)
    assert found.hours == pytest.approx(seconds / 3600)
    assert found.hours_source == "the pace of 2 earlier runs"
    empty = Pace("1 earlier run", server_ready_s=1, cell_overhead_s=1, tokens_per_s={})
    assert (estimate(2, cells, empty).hours, estimate(2, cells, empty).hours_source) == (
        None,
        NO_PACE,
    )


def test_a_duration_bounds_a_cell() -> None:
    found = estimate(0, [load(row(300, 1), duration_s=20)], PACE)
    assert found.hours == pytest.approx((5 + 20) / 3600)


def test_a_stand_in_is_counted_once_with_what_it_stands_for() -> None:
    job = {"adaptive": "off"}
    both = resolve(make(job, verifier_reading=MTP)).evaluation
    alone = resolve(make({**job, "comparator": "mtp"}, verifier_reading=MTP)).evaluation
    assert len({key.server for key in both.keys}) == 3
    assert both.estimate == alone.estimate
    assert both.estimate is not None and both.estimate.servers == 2

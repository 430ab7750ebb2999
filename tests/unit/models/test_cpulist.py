"""The kernel's CPU lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.models.cpulist import format_cpu_list, parse_cpu_list


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0-3,8", (0, 1, 2, 3, 8)), ("", ()), (" 2 , 1-2\n", (1, 2)), ("7", (7,))],
)
def test_parse(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_cpu_list(text) == numbers


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "1-2-3", "0x1", "٣"])
def test_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a CPU|runs backwards"):
        parse_cpu_list(text)


@given(st.sets(st.integers(min_value=0, max_value=40)))
def test_there_and_back(numbers: set[int]) -> None:
    text = format_cpu_list(numbers)
    assert parse_cpu_list(text) == tuple(sorted(numbers))
    assert ",," not in text
    for left, right in zip(text.split(","), text.split(",")[1:], strict=False):
        assert int(right.split("-")[0]) > int(left.split("-")[-1]) + 1

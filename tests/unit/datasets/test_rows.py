"""JSON rows out of lines, wherever the lines come from."""

from __future__ import annotations

import pytest

from runner.datasets.rows import json_rows
from runner.errors import SpecError


def test_a_line_separator_inside_a_text_ends_no_row() -> None:
    lines = ['{"text": "a\u2028b"}', "", '{"text": "c"}\r', ""]
    assert [row["text"] for row in json_rows(lines, "x")] == ["a\u2028b", "c"]


@pytest.mark.parametrize(("line", "words"), [("{", "is not JSON"), ("[1]", "a JSON object")])
def test_what_is_no_row_is_told_with_its_line(line: str, words: str) -> None:
    with pytest.raises(SpecError, match=words) as caught:
        list(json_rows(['{"text": "a"}', line], "rows.jsonl"))
    assert str(caught.value).startswith("rows.jsonl:2: ")

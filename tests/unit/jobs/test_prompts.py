"""Prompt sets: strict in, and out exactly what AIPerf reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.errors import SpecError
from runner.jobs import PromptRows, read_prompts


def write(folder: Path, *rows: Any) -> Path:
    file = folder / "set.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    file.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))
    return file


def decoded(rows: PromptRows, output_tokens: int = 64) -> list[Any]:
    return [json.loads(line) for line in rows.jsonl(output_tokens).decode().splitlines()]


def test_texts_become_single_turns(tmp_path: Path) -> None:
    file = write(tmp_path, {"id": "a", "text": "one"}, {"text": "zwei ä"})
    rows = read_prompts(file, "code")
    assert rows.aiperf_format == "single_turn"
    assert [(row.id, row.turns) for row in rows.rows] == [("code/a", 1), ("code/2", 1)]
    assert rows.requests == 2
    assert rows.jsonl(64) == (
        b'{"session_id": "code/a", "text": "one", "output_length": 64}\n'
        b'{"session_id": "code/2", "text": "zwei \xc3\xa4", "output_length": 64}\n'
    )


def test_messages_become_a_trace(tmp_path: Path) -> None:
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "and now?"},
    ]
    rows = read_prompts(write(tmp_path, {"id": "m", "messages": messages}), "chat")
    assert rows.aiperf_format == "mooncake_trace"
    assert rows.requests == 1
    assert decoded(rows, 8) == [{"session_id": "chat/m", "messages": messages, "output_length": 8}]


def test_turns_become_a_conversation_with_a_limit_for_each_turn(tmp_path: Path) -> None:
    rows = read_prompts(write(tmp_path, {"id": "t", "turns": ["one", "two"]}), "mt")
    assert rows.aiperf_format == "multi_turn"
    assert [(row.id, row.turns) for row in rows.rows] == [("mt/t", 2)]
    assert rows.requests == 2
    assert decoded(rows, 8) == [
        {
            "session_id": "mt/t",
            "turns": [
                {"role": "user", "text": "one", "output_length": 8},
                {"role": "user", "text": "two", "output_length": 8},
            ],
        }
    ]


def test_ids_keep_only_characters_that_are_safe(tmp_path: Path) -> None:
    file = write(tmp_path, {"id": "HumanEval/0", "text": "a"}, {"id": "é x", "text": "b"})
    assert [row.id for row in read_prompts(file, "h e").rows] == ["h_e/HumanEval_0", "h_e/__x"]


def test_the_first_rows_are_taken_and_not_more_than_there_are(tmp_path: Path) -> None:
    file = write(tmp_path, *({"text": f"text {number}"} for number in range(5)))
    assert [row.id for row in read_prompts(file, "s", 2).rows] == ["s/1", "s/2"]
    assert len(read_prompts(file, "s", 5).rows) == 5
    with pytest.raises(SpecError) as caught:
        read_prompts(file, "s", 6)
    assert caught.value.problems == (f"{file}: 6 rows are wanted and the file has 5",)
    assert caught.value.exit_code == 3


LAST = "the last one must come from the user, or nothing is asked"


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("", "an empty line; expected a JSON object"),
        ("{", "not JSON: Expecting property name enclosed in double quotes at column 2"),
        ("[1]", "expected a JSON object, found [1]"),
        ('{"text": "a", "text": "b"}', "key 'text' is given twice"),
        ('{"text": NaN}', "NaN is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ({"id": "a"}, "expected one of text, messages, turns; found none"),
        ({"text": "a", "turns": ["b"]}, "expected one of text, messages, turns; found text and"
         " turns"),
        ({"txet": "a"}, "unknown key 'txet'; did you mean 'text'?"),
        ({"text": "a", "kategory": "b"}, "unknown key 'kategory'; did you mean 'category'?"),
        ({"text": "a", "zzz": "b"}, "unknown key 'zzz'; expected id, category, answer, text,"
         " messages, turns"),
        ({"text": "a", "category": 3}, "category: expected a text, found 3"),
        ({"text": " \n"}, "text is empty"),
        ({"text": 3}, "text: expected a text, found 3"),
        ('{"text": "\\ud800"}', "text holds half of a surrogate pair, which is no text"),
        ({"id": 3, "text": "a"}, "id: expected a text, found 3"),
        ({"id": " ", "text": "a"}, 'id: expected a text, found " "'),
        ({"id": "good", "text": "b"}, "id 's/good' is the id of line 1, too"),
        ({"turns": ["a"]}, "'turns' in a file whose first row has 'text'; keep to one"),
    ],
)  # fmt: skip
def test_a_wrong_row_is_told_with_its_line(tmp_path: Path, row: Any, problem: str) -> None:
    file = write(tmp_path, {"id": "good", "text": "a"}, row, {"text": "c"})
    with pytest.raises(SpecError) as caught:
        read_prompts(file, "s")
    assert caught.value.problems == (f"{file}:2: {problem}",)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"turns": []}, "turns: expected a list of texts with one entry at least"),
        ({"turns": ["a", ""]}, "turns.1 is empty"),
        ({"messages": "a"}, "messages: expected a list of {role, content} with one entry at"
         " least"),
        ({"messages": [{"role": "user"}]}, "messages.0: expected an object with role and content,"
         " nothing else"),
        ({"messages": [{"role": "bot", "content": "a"}]}, "messages.0.role: expected system,"
         ' user, assistant; found "bot"'),
        ({"messages": [{"role": "user", "content": ""}]}, "messages.0.content is empty"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, f"messages: {LAST}"),
    ],
)  # fmt: skip
def test_wrong_conversations(tmp_path: Path, row: Any, problem: str) -> None:
    file = write(tmp_path, row)
    with pytest.raises(SpecError) as caught:
        read_prompts(file, "s")
    assert caught.value.problems == (f"{file}:1: {problem}",)


def test_every_problem_of_a_file_is_told(tmp_path: Path) -> None:
    file = write(tmp_path, {"text": ""}, "x", {"text": "a"})
    with pytest.raises(SpecError) as caught:
        read_prompts(file, "s", 4)
    assert caught.value.problems == (
        f"{file}:1: text is empty",
        f"{file}:2: not JSON: Expecting value at column 1",
        f"{file}: 4 rows are wanted and the file has 3",
    )


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    file = write(tmp_path)
    with pytest.raises(SpecError) as caught:
        read_prompts(file, "s")
    assert caught.value.problems == (
        f"{file}: the file has no rows; expected one JSON object a line",
    )


def test_separators_that_only_unicode_knows_do_not_split_a_row(tmp_path: Path) -> None:
    file = tmp_path / "set.jsonl"
    file.write_bytes('\ufeff{"text": "a\u2028b\u0085c"}\r\n\n'.encode())
    assert [row.content for row in read_prompts(file, "s").rows] == ["a\u2028b\u0085c"]


_TEXTS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1).filter(str.strip)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(_TEXTS, min_size=1, max_size=5))
def test_any_text_survives_the_way_through(tmp_path: Path, texts: list[str]) -> None:
    file = write(tmp_path, *({"text": text} for text in texts))
    lines = read_prompts(file, "s").jsonl(4).decode().split("\n")
    assert [json.loads(line)["text"] for line in lines[:-1]] == texts
    assert lines[-1] == ""


def test_category_and_answer_are_kept_and_never_sent(tmp_path: Path) -> None:
    row = {"id": "a", "text": "question", "category": "math", "answer": "42"}
    rows = read_prompts(write(tmp_path, row), "s")
    assert (rows.rows[0].category, rows.rows[0].answer) == ("math", "42")
    sent = rows.jsonl(8).decode()
    assert "question" in sent
    assert "math" not in sent
    assert "42" not in sent

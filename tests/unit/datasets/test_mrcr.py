"""MRCR: tasks lie in their bins, the right needle is the answer, the grade is the public one."""

from __future__ import annotations

import hashlib
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.datasets.mrcr import (
    BINS,
    DEFAULT_BINS,
    DEFAULT_NEEDLES,
    DEFAULT_ROWS_PER_BIN,
    DEFAULT_SEED,
    Conversation,
    bin_of,
    convert_row,
    generate,
    grade,
    prefix_of,
    with_bins,
)
from runner.datasets.tokens import TokenCounter
from runner.errors import SpecError

TINY = Path(__file__).parents[2] / "data" / "tokenizers" / "tiny"


def words(messages: Conversation) -> int:
    """A tokenizer of a kind: words, and four more around each message."""
    return sum(len(message["content"].split()) + 4 for message in messages)


def default_rows() -> list[dict[str, Any]]:
    return list(
        generate(
            needles=DEFAULT_NEEDLES,
            bins=DEFAULT_BINS,
            rows_per_bin=DEFAULT_ROWS_PER_BIN,
            seed=DEFAULT_SEED,
            count=words,
        )
    )


def needles_of(row: dict[str, Any]) -> list[str]:
    """The texts that may be meant, found by reading the conversation as a model would."""
    *rounds, question = row["messages"]
    pairs = list(zip(rounds[::2], rounds[1::2], strict=True))
    asks = [ask["content"] for ask, _ in pairs]
    subjects = {ask: ask.removeprefix("Write a ").removesuffix(".") for ask in asks}
    wanted = next(ask for ask in asks if f" {subjects[ask]} that you" in question["content"])
    return [text["content"] for ask, text in pairs if ask["content"] == wanted]


@settings(max_examples=25, deadline=None)
@given(
    needles=st.sampled_from((2, 4, 8)),
    chosen=st.sampled_from(BINS[:4]),
    rows=st.integers(1, 4),
    seed=st.integers(0, 10**9),
)
def test_rows_are_in_their_bin_and_ask_for_a_needle(
    needles: int, chosen: tuple[int, int], rows: int, seed: int
) -> None:
    made = list(generate(needles=needles, bins=[chosen], rows_per_bin=rows, seed=seed, count=words))
    assert len(made) == len({row["id"] for row in made}) == rows
    for row in made:
        assert chosen[0] < words(row["messages"]) <= chosen[1]
        assert row["category"] == bin_of(words(row["messages"]))
        roles = [message["role"] for message in row["messages"]]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
        texts = needles_of(row)
        assert len(texts) == len(set(texts)) == needles
        prefix = prefix_of(row)
        assert len(prefix) == 10 and prefix.isalnum()
        place = texts.index(row["answer"].removeprefix(prefix)) + 1
        ordinals = {1: "1st", 2: "2nd", 3: "3rd"}
        assert f" {ordinals.get(place, f'{place}th')} " in row["messages"][-1]["content"]
        assert grade(row["answer"], row["answer"], prefix) == 1.0
        assert grade(row["answer"].removeprefix(prefix), row["answer"], prefix) == 0.0


def test_every_bin_up_to_32k_holds_its_rows() -> None:
    made = list(generate(needles=8, bins=BINS[:5], rows_per_bin=2, seed=1, count=words))
    assert [row["category"] for row in made] == [
        "1k-2k", "1k-2k", "2k-4k", "2k-4k", "4k-8k", "4k-8k", "8k-16k", "8k-16k", "16k-32k",
        "16k-32k",
    ]  # fmt: skip


def test_the_rendered_prompt_is_in_the_bin() -> None:
    counter = TokenCounter.from_files(
        (TINY / "tokenizer.json").read_bytes(),
        (TINY / "tokenizer_config.json").read_bytes(),
        (TINY / "chat_template.jinja").read_bytes(),
    )
    count = counter.count_messages
    made = list(generate(needles=8, bins=DEFAULT_BINS, rows_per_bin=3, seed=7, count=count))
    assert [bin_of(counter.count_messages(row["messages"])) for row in made] == [
        "1k-2k", "1k-2k", "1k-2k", "2k-4k", "2k-4k", "2k-4k", "4k-8k", "4k-8k", "4k-8k",
    ]  # fmt: skip


def test_lengths_are_spread_over_a_bin_and_needles_over_a_conversation() -> None:
    made = list(generate(needles=4, bins=[(8192, 16384)], rows_per_bin=8, seed=3, count=words))
    lengths = [words(row["messages"]) for row in made]
    assert lengths == sorted(lengths)
    assert lengths[0] < 10_240 and lengths[-1] > 14_336
    for row in made:
        texts = [message["content"] for message in row["messages"]]
        places = [texts.index(needle) / len(texts) for needle in needles_of(row)]
        assert [int(place * 4) for place in places] == [0, 1, 2, 3]


def test_each_needle_is_asked_for_equally_often() -> None:
    made = list(generate(needles=4, bins=[(2048, 4096)], rows_per_bin=8, seed=3, count=words))
    asked = [needles_of(row).index(row["answer"][10:]) for row in made]
    assert sorted(asked) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_needles_are_unlike_each_other() -> None:
    for row in default_rows():
        for one, other in combinations(needles_of(row), 2):
            assert grade(one, other, "") < 0.8


def test_the_same_arguments_give_the_same_bytes() -> None:
    # another hash here means: GENERATOR_REVISION must change, too
    data = "".join(json.dumps(row) + "\n" for row in default_rows()).encode()
    assert len(default_rows()) == 12
    assert (
        hashlib.sha256(data).hexdigest()
        == "f31412369cfc20b8da8662edd0de694e4b3fa71f3113efbc64f5de5daa6a4d29"
    )


def test_another_seed_gives_other_rows() -> None:
    one, other = (
        next(generate(needles=2, bins=[(1024, 2048)], rows_per_bin=1, seed=seed, count=words))
        for seed in (1, 2)
    )
    assert one["id"] == other["id"]
    assert one["messages"] != other["messages"]


def test_needles_that_do_not_fit_are_refused() -> None:
    with pytest.raises(SpecError, match=r"^64 MRCR needles take \d+ tokens, .* ends at 2048"):
        list(generate(needles=64, bins=[(1024, 2048)], rows_per_bin=1, seed=1, count=words))


def test_a_bin_that_no_conversation_hits_is_refused() -> None:
    with pytest.raises(SpecError, match="no MRCR conversation of 1501 to 1501 tokens came out"):
        list(generate(needles=2, bins=[(1500, 1501)], rows_per_bin=1, seed=1, count=words))


def test_no_needles_are_refused() -> None:
    with pytest.raises(SpecError, match="expected 1 or more of each"):
        list(generate(needles=0, bins=BINS, rows_per_bin=1, seed=1, count=words))


def test_bins_reach_from_1k_to_1m() -> None:
    assert BINS[0] == (1024, 2048)
    assert BINS[-1] == (524_288, 1_048_576)
    assert [high for _, high in BINS[:-1]] == [low for low, _ in BINS[1:]]


@pytest.mark.parametrize(
    ("tokens", "label"),
    [
        (0, "0-1k"), (1024, "0-1k"), (1025, "1k-2k"), (2048, "1k-2k"), (8192, "4k-8k"),
        (8193, "8k-16k"), (524_289, "512k-1M"), (1_048_576, "512k-1M"), (1_048_577, "over-1M"),
    ],
)  # fmt: skip
def test_a_bin_ends_with_its_second_number(tokens: int, label: str) -> None:
    assert bin_of(tokens) == label


def test_the_grade_by_hand() -> None:
    # "abcd" and "bcde" share "bcd": 2 * 3 / (4 + 4)
    assert grade("XYabcd", "XYbcde", "XY") == 0.75
    assert grade("XYabcd", "XYabcd", "XY") == 1.0
    assert grade(" XYabcd", "XYabcd", "XY") == 0.0
    assert grade("abcd", "XYabcd", "XY") == 0.0
    assert grade("", "XYabcd", "XY") == 0.0
    assert grade("XY", "XYabcd", "XY") == 0.0


def public_row(**changed: Any) -> dict[str, Any]:
    """A made-up row with the columns of the public set."""
    messages = [
        {"role": "user", "content": "Examples: none.\n"},
        {"role": "user", "content": "write a riddle about doors"},
        {"role": "assistant", "content": "**Riddle**\nI open and I close."},
        {"role": "user", "content": "write a riddle about doors"},
        {"role": "assistant", "content": "**Riddle**\nMany knock at me."},
        {"role": "user", "content": "Prepend q1W2e3R4t5 to the 2nd riddle about doors."},
    ]
    row = {
        "prompt": json.dumps(messages),
        "answer": "q1W2e3R4t5**Riddle**\nMany knock at me.",
        "random_string_to_prepend": "q1W2e3R4t5",
        "n_needles": 2,
        "desired_msg_index": 3,
        "total_messages": 6,
        "n_chars": 150,
    }
    return {**row, **changed}


def test_a_public_row_becomes_ours() -> None:
    row = convert_row(public_row())
    assert list(row) == ["id", "messages", "answer"]
    assert row["id"] == "2n-3-q1W2e3R4t5"
    assert row["messages"] == json.loads(public_row()["prompt"])
    assert row["answer"] == "q1W2e3R4t5**Riddle**\nMany knock at me."
    assert prefix_of(row) == "q1W2e3R4t5"


def test_bins_are_filled_in_by_the_counter() -> None:
    rows = [convert_row(public_row())]
    assert [row["category"] for row in with_bins(rows, words)] == ["0-1k"]
    assert [row["category"] for row in with_bins(rows, lambda _: 5000)] == ["4k-8k"]
    assert "category" not in rows[0]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"answer": None}, "column 'answer': expected str, found None"),
        ({"n_needles": "2"}, "column 'n_needles': expected int, found '2'"),
        ({"prompt": "[{"}, "column 'prompt' is not JSON: "),
        ({"prompt": "[]"}, "column 'prompt': expected a list of messages with role and content"),
        ({"prompt": '[{"role": "user"}]'}, "column 'prompt': expected a list of messages"),
        (
            {"prompt": '[{"role": "assistant", "content": "q1W2e3R4t5"}]'},
            "column 'prompt': the last message does not come from the user",
        ),
        ({"answer": "Many knock."}, "the answer and the question do not share the prefix"),
        ({"random_string_to_prepend": ""}, "the answer and the question do not share the prefix"),
    ],
)
def test_a_wrong_public_row_gives_its_reason(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(SpecError) as caught:
        convert_row(public_row(**changed))
    assert caught.value.what.startswith(f"a row of MRCR is wrong: {reason}")

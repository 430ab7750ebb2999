"""Multi-round co-reference resolution: synthetic tasks, the public set's rows, and the grade.

A task is a conversation in which a user asks for many small pieces of writing. Some of the requests
(the needles) are word for word the same; the last message asks for the answer to one of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from random import Random
from string import ascii_letters, digits
from typing import Any

from runner.datasets.mrcr_text import KINDS, TOPICS, write
from runner.errors import SpecError

Conversation = list[dict[str, Any]]
Count = Callable[[Conversation], int]

# changes whenever the same arguments give other bytes
GENERATOR_REVISION = "1"
# tokens, above the first and up to the second; from 4k on those of the public set
BINS = tuple((1024 << step, 2048 << step) for step in range(10))
DEFAULT_NEEDLES = 2
DEFAULT_BINS = BINS[:3]
DEFAULT_ROWS_PER_BIN = 4
DEFAULT_SEED = 42

_PREFIX_CHARACTERS = 10
_ROUNDS_OF_CORRECTION = 20
_ROLES = ("system", "user", "assistant")


def generate(
    *,
    needles: int,
    bins: Sequence[tuple[int, int]],
    rows_per_bin: int,
    seed: int,
    count: Count,
) -> Iterator[dict[str, Any]]:
    """Synthetic tasks: rows with id, messages, category (the bin) and answer (with its prefix).

    The same arguments give the same rows. Lengths are spread over each bin, needles over each
    conversation, and each needle is asked for about equally often.

    Args:
        needles: requests that are the same.
        bins: prompt tokens of the rows, above the first number and up to the second.
        count: prompt tokens of a conversation as the server counts them.

    Raises:
        SpecError: the needles alone are longer than a bin, or rounds are too long to hit it.
    """
    if needles < 1 or rows_per_bin < 1:
        raise SpecError(
            f"MRCR with {needles} needles and {rows_per_bin} rows a bin; expected 1 or more of each"
        )
    for low, high in bins:
        order = _random(seed, needles, low, high).sample(range(needles), needles)
        for number in range(rows_per_bin):
            random = _random(seed, needles, low, high, number)
            task = _Task(random, needles, order[number % needles], sentences=_sentences(high))
            share = (number + 0.5) / rows_per_bin
            task.fill(low, high, round(low + (high - low) * (0.1 + 0.8 * share)), count)
            label = bin_label(low, high)
            yield {
                "id": f"{needles}n-{label}-{number + 1}",
                "messages": task.messages(),
                "category": label,
                "answer": task.answer,
            }


def convert_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the public set `openai/mrcr` as one of ours; its category is filled in by
    `with_bins`, once there is a tokenizer to count with.

    Args:
        row: columns prompt (JSON text of the messages), answer, random_string_to_prepend,
            n_needles, desired_msg_index; others are not read.

    Raises:
        SpecError: a column is missing or does not hold what it should.
    """
    prefix = _column(row, "random_string_to_prepend", str)
    answer = _column(row, "answer", str)
    messages = _messages(_column(row, "prompt", str))
    needles = _column(row, "n_needles", int)
    index = _column(row, "desired_msg_index", int)
    converted = {
        "id": f"{needles}n-{index}-{prefix}",
        "messages": messages,
        "answer": answer,
    }
    if not prefix or prefix_of(converted) != prefix:
        raise _wrong_row(f"the answer and the question do not share the prefix '{prefix}'")
    return converted


def with_bins(rows: Iterable[Mapping[str, Any]], count: Count) -> Iterator[dict[str, Any]]:
    """The rows, each with the bin of its rendered prompt as category.

    The public set's own bins count prompt and answer with another tokenizer; these are the
    prompt's tokens on the server at hand.
    """
    for row in rows:
        yield {**row, "category": bin_of(count(row["messages"]))}


def bin_of(prompt_tokens: int) -> str:
    """The label of the bin of BINS that a prompt falls in: above its first number, up to its
    second; `0-1k` and `over-1M` outside of all."""
    if prompt_tokens <= BINS[0][0]:
        return bin_label(0, BINS[0][0])
    for low, high in BINS:
        if prompt_tokens <= high:
            return bin_label(low, high)
    return f"over-{_short(BINS[-1][1])}"


def bin_label(low: int, high: int) -> str:
    """A bin in words: `4k-8k`, where k is 1024 tokens and M is 1024 k."""
    return f"{_short(low)}-{_short(high)}"


def grade(answer: str, expected: str, prefix: str) -> float:
    """How well an answer repeats the right needle, from 0 to 1.

    0 when the answer does not start with the prefix; otherwise the ratio of
    `difflib.SequenceMatcher` between both texts without it. Source: the card of the public set
    (`openai/mrcr`, "Implementation details" and its `grade` function).

    Args:
        answer: what the model said.
        expected: the row's answer, which starts with the prefix.
        prefix: `prefix_of` the row.
    """
    if not answer.startswith(prefix):
        return 0.0
    said, wanted = answer.removeprefix(prefix), expected.removeprefix(prefix)
    return SequenceMatcher(None, said, wanted).ratio()


def prefix_of(row: Mapping[str, Any]) -> str:
    """The random text that a row's answer must start with: what the beginning of its answer has
    in common with its last message."""
    question, answer = row["messages"][-1]["content"], row["answer"]
    length = 0
    while length < len(answer) and answer[: length + 1] in question:
        length += 1
    return str(answer[:length])


class _Task:
    """One conversation that grows to a length. Needles stay; other rounds come and go."""

    def __init__(self, random: Random, needles: int, asked: int, sentences: tuple[int, int]):
        self._random = random
        self._sentences = sentences
        self._texts: set[str] = set()
        self._wanted = (random.choice(KINDS), random.choice(TOPICS))
        self._needles = [self._text(*self._wanted) for _ in range(needles)]
        # each needle has a stretch of the conversation to itself
        self._depths = [(number + random.random()) / needles for number in range(needles)]
        self._others: list[tuple[str, str, str]] = []
        self._asked = asked
        self._prefix = "".join(random.choices(ascii_letters + digits, k=_PREFIX_CHARACTERS))

    @property
    def answer(self) -> str:
        """Prefix and text of the needle that is asked for."""
        return self._prefix + self._needles[self._asked]

    def messages(self) -> Conversation:
        """The conversation; the question comes last."""
        rounds = list(self._others)
        places = [int(depth * (len(rounds) + 1)) for depth in self._depths]
        # from the back, so that earlier places stay where they are
        for place, text in reversed(list(zip(places, self._needles, strict=True))):
            rounds.insert(place, (*self._wanted, text))
        messages: Conversation = []
        for kind, topic, text in rounds:
            messages.append({"role": "user", "content": f"Write a {kind} about {topic}."})
            messages.append({"role": "assistant", "content": text})
        messages.append({"role": "user", "content": self._question()})
        return messages

    def fill(self, low: int, high: int, target: int, count: Count) -> None:
        """Adds and drops rounds until the prompt has about `target` tokens, in the bin surely."""
        messages = self.messages()
        tokens = count(messages)
        if tokens > high:
            raise SpecError(
                f"{len(self._needles)} MRCR needles take {tokens} tokens, and the bin "
                f"{bin_label(low, high)} ends at {high}",
                next_step="take fewer needles or longer bins",
            )
        for _ in range(_ROUNDS_OF_CORRECTION):
            characters_per_token = _characters(messages) / tokens
            self._grow((target - tokens) * characters_per_token)
            messages = self.messages()
            tokens = count(messages)
            if low < tokens <= high:
                return
        raise SpecError(
            f"no MRCR conversation of {low + 1} to {high} tokens came out; the last had {tokens}",
            next_step="take wider bins",
        )

    def _grow(self, characters: float) -> None:
        """Adds rounds of so many characters together, or drops them when negative."""
        while characters > 0:
            self._others.append(self._other())
            characters -= _length(self._others[-1])
        while characters < 0 and self._others:
            characters += _length(self._others.pop())

    def _other(self) -> tuple[str, str, str]:
        """A round that is no needle; half of them are near misses."""
        kind, topic = self._wanted
        near = self._random.randrange(4)
        while (kind, topic) == self._wanted:
            kind = self._wanted[0] if near == 0 else self._random.choice(KINDS)
            topic = self._wanted[1] if near == 1 else self._random.choice(TOPICS)
        return kind, topic, self._text(kind, topic)

    def _text(self, kind: str, topic: str) -> str:
        """A text that this conversation does not have yet."""
        while True:
            text = write(self._random, kind, topic, self._random.randint(*self._sentences))
            if text not in self._texts:
                self._texts.add(text)
                return text

    def _question(self) -> str:
        kind, topic = self._wanted
        return (
            f"Begin with {self._prefix} and then, without a space, repeat word for word the "
            f"{_ordinal(self._asked + 1)} {kind} about {topic} that you wrote, counting from 1. "
            "Write nothing else."
        )


def _random(*seeds: int) -> Random:
    return Random("/".join(map(str, seeds)))  # noqa: S311


def _sentences(high: int) -> tuple[int, int]:
    """Shortest and longest text, so that needles leave room for other rounds in short bins."""
    return (1, 3) if high <= 4096 else (4, 10)


def _length(round_: tuple[str, str, str]) -> int:
    kind, topic, text = round_
    return len(f"Write a {kind} about {topic}.") + len(text)


def _characters(messages: Conversation) -> int:
    return sum(len(message["content"]) for message in messages)


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if 10 < number % 100 < 14 else ending}"


def _short(tokens: int) -> str:
    for size, letter in ((1 << 20, "M"), (1 << 10, "k")):
        if tokens and tokens % size == 0:
            return f"{tokens // size}{letter}"
    return str(tokens)


def _column(row: Mapping[str, Any], name: str, kind: type) -> Any:
    value = row.get(name)
    if not isinstance(value, kind):
        raise _wrong_row(f"column '{name}': expected {kind.__name__}, found {value!r:.40}")
    return value


def _messages(prompt: str) -> Conversation:
    try:
        messages = json.loads(prompt)
    except ValueError as error:
        raise _wrong_row(f"column 'prompt' is not JSON: {error}") from error
    if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
        raise _wrong_row("column 'prompt': expected a list of messages with role and content")
    if messages[-1]["role"] != "user":
        raise _wrong_row("column 'prompt': the last message does not come from the user")
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def _is_message(message: Any) -> bool:
    return (
        isinstance(message, dict)
        and message.get("role") in _ROLES
        and isinstance(message.get("content"), str)
    )


def _wrong_row(why: str) -> SpecError:
    return SpecError(
        f"a row of MRCR is wrong: {why}",
        next_step="fetch another revision of the dataset",
    )

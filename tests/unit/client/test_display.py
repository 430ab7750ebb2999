"""The display path of logs: every hostile byte that a container may print (case g4)."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.client.display import LINE_CAP, LineDecoder


def decode(*chunks: bytes) -> list[str]:
    decoder = LineDecoder()
    lines = [line for chunk in chunks for line in decoder.feed(chunk)]
    return lines + decoder.close()


def one_by_one(data: bytes) -> list[str]:
    return decode(*(data[at : at + 1] for at in range(len(data))))


def test_a_character_split_across_chunks_is_joined() -> None:
    assert decode(b"caf\xc3", b"\xa9\n") == ["café"]


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    assert decode(b"\xfe\xff not utf-8\n") == ["\ufffd\ufffd not utf-8"]


def test_a_torn_character_at_the_end_is_replaced() -> None:
    assert decode(b"caf\xc3") == ["caf\ufffd"]


def test_a_line_is_given_as_soon_as_its_newline_is_there() -> None:
    decoder = LineDecoder()
    assert decoder.feed(b"one\ntw") == ["one"]
    assert decoder.feed(b"o\n") == ["two"]
    assert decoder.close() == []


def test_the_last_line_needs_no_newline() -> None:
    assert decode(b"one\ntwo") == ["one", "two"]


def test_empty_lines_stay() -> None:
    assert decode(b"a\n\n\nb\n") == ["a", "", "", "b"]


def test_a_carriage_return_replaces_the_line() -> None:
    assert decode(b"Loading 1%\rLoading 100%\rok\n") == ["ok"]


@pytest.mark.parametrize("ending", [b"\r\n", b"\r\r\n", b"\n"])
def test_a_carriage_return_before_a_newline_is_only_a_line_end(ending: bytes) -> None:
    assert decode(b"text" + ending + b"next" + ending) == ["text", "next"]
    assert one_by_one(b"text" + ending) == ["text"]


def test_a_progress_bar_that_ends_with_a_carriage_return_is_shown_once() -> None:
    assert decode(b"50%\r", b"100%\r") == ["100%"]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"\x1b[31mValueError: red\x1b[0m", "ValueError: red"),
        (b"\x1b[1;38;5;196mx\x1b[m", "x"),
        (b"\x1b]0;a title\x07text", "text"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b(Btext\x1b=", "text"),
        (b"\x1bPdevice string\x1b\\text", "text"),
        ("\u009b31mtext\u009b0m".encode(), "text"),
        (b"bell\x07 and\x00 null\x08", "bell and null"),
        (b"tab\there", "tab\there"),
        ("no \u0085 break \u2028 here".encode(), "no  break \u2028 here"),
    ],
)
def test_escape_sequences_and_control_characters_are_dropped(raw: bytes, shown: str) -> None:
    assert decode(raw + b"\n") == [shown]
    assert one_by_one(raw) == [shown]


def test_a_sequence_that_a_newline_cuts_does_not_eat_the_next_line() -> None:
    assert decode(b"a\x1b[31\nb\x1b]0;title\nc\x1b\nd") == ["a", "b", "c", "d"]


def test_an_escape_string_without_end_gives_the_text_back() -> None:
    shown = decode(b"\x1b]0;" + b"t" * 4094 + b"after the cap\n")
    assert shown == ["after the cap"]


def test_a_long_line_is_cut_and_says_so() -> None:
    (line,) = decode(b"x" * 70_000 + b"\n")
    assert line == "x" * LINE_CAP + " [cut: 4464 more characters]"


def test_a_line_of_exactly_the_cap_is_whole() -> None:
    assert decode(b"x" * LINE_CAP + b"\nnext\n") == ["x" * LINE_CAP, "next"]


def test_the_line_after_a_cut_one_is_whole() -> None:
    assert decode(b"x" * 70_000 + b"\nshort\n")[1] == "short"


def test_a_replaced_long_line_leaves_no_note() -> None:
    assert decode(b"x" * 70_000 + b"\rshort\n") == ["short"]


def test_the_whole_of_case_g4() -> None:
    bar = b"".join(b"\rLoading %d%%" % step for step in range(20_000))
    raw = b"caf\xc3\xa9\n\xfe\xff not utf-8\n" + bar + b"\n\x1b[31mValueError: red\x1b[0m"
    expected = ["café", "\ufffd\ufffd not utf-8", "Loading 19999%", "ValueError: red"]
    for size in (1, 7, 16 * 1024, len(raw)):
        assert decode(*(raw[at : at + size] for at in range(0, len(raw), size))) == expected


@pytest.mark.parametrize("piece", [b"\rLoading 12345%", b"x" * 1024, b"y", b"\x1b]0;t", b"\x1b[1"])
def test_memory_stays_flat_without_a_newline(piece: bytes) -> None:
    decoder = LineDecoder()
    block = piece * (16 * 1024 // len(piece))
    for _ in range(8):
        decoder.feed(block)
    tracemalloc.start()
    try:
        for _ in range(32):
            assert decoder.feed(block) == []
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 256 * 1024


pieces = st.one_of(
    st.binary(max_size=12),
    st.text(max_size=6).map(str.encode),
    st.sampled_from(
        [
            *(
                b"\n",
                b"\r",
                b"\r\n",
                b"\x1b",
                b"\x1b[",
                b"\x1b[31m",
                b"\x1b]0;",
                b"\x07",
                b"\x1b\\",
            ),
            *(
                b"\xc3",
                b"\xa9",
                b"\xe2\x80",
                b"\xf0\x9f\x98",
                b"\xc2\x9b",
                b"\xc2\x9c",
                b"x" * 40_000,
            ),
            *(b"\x1b(", b"\x1bP", b"t" * 4096, b"\t", b"\x00"),
        ]
    ),
)


@settings(deadline=None)
@given(st.lists(pieces, max_size=24).map(b"".join), st.data())
def test_any_chunking_gives_the_same_lines(data: bytes, draw: st.DataObject) -> None:
    whole = decode(data)
    cuts = sorted(draw.draw(st.sets(st.integers(0, len(data)), max_size=30)))
    bounds = [0, *cuts, len(data)]
    chunks = [data[a:b] for a, b in pairwise(bounds)]
    assert decode(*chunks) == whole


@settings(deadline=None)
@given(st.lists(pieces, max_size=24).map(b"".join))
def test_no_line_holds_what_a_terminal_would_obey(data: bytes) -> None:
    for line in decode(data):
        assert not any(
            (ord(character) < 0x20 and character != "\t") or 0x7F <= ord(character) <= 0x9F
            for character in line
        )
        assert len(line) <= LINE_CAP + 64


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=40))
def test_plain_text_comes_out_as_it_went_in(text: str) -> None:
    assert decode(text.encode() + b"\n") == [text]

"""The multiplexed log stream: any pieces in, the same bytes out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.engine.base import LogChunk
from runner.engine.frames import Demultiplexer
from runner.errors import EngineError

NUMBERS = {"stdout": 1, "stderr": 2}
RECORD = b"x" * 16_384


def frame(stream: str, data: bytes) -> bytes:
    return bytes([NUMBERS[stream], 0, 0, 0]) + len(data).to_bytes(4, "big") + data


def chunks(*pieces: bytes) -> list[LogChunk]:
    demultiplexer = Demultiplexer()
    found = [chunk for piece in pieces for chunk in demultiplexer.feed(piece)]
    assert not demultiplexer.torn
    return found


def stdout(*records: bytes) -> bytes:
    return b"".join(chunk.data for chunk in chunks(*(frame("stdout", r) for r in records)))


line = st.tuples(
    st.sampled_from(["stdout", "stderr"]), st.binary(max_size=40).map(lambda b: b + b"\n")
)


@given(st.lists(line, max_size=12), st.lists(st.integers(1, 30), min_size=1, max_size=30))
def test_pieces_of_any_size_give_the_same_chunks(
    lines: list[tuple[str, bytes]], sizes: list[int]
) -> None:
    data = b"".join(frame(stream, content) for stream, content in lines)
    pieces, at, turn = [], 0, 0
    while at < len(data):
        pieces.append(data[at : at + sizes[turn % len(sizes)]])
        at, turn = at + len(pieces[-1]), turn + 1
    assert chunks(*pieces) == [LogChunk(stream, content) for stream, content in lines]


def test_a_chunk_comes_as_soon_as_its_frame_is_whole() -> None:
    demultiplexer = Demultiplexer()
    data = frame("stderr", b"ab\n")
    assert list(demultiplexer.feed(data[:-1])) == []
    assert demultiplexer.torn
    assert list(demultiplexer.feed(data[-1:])) == [LogChunk("stderr", b"ab\n")]
    assert not demultiplexer.torn


def test_the_newline_that_an_engine_loses_after_a_long_line_is_put_back() -> None:
    assert stdout(RECORD, b"tail", b"next\n") == RECORD + b"tail\nnext\n"
    assert stdout(RECORD, b"tail\n", b"next\n") == RECORD + b"tail\nnext\n"
    assert stdout(RECORD, RECORD, b"", b"next\n") == RECORD * 2 + b"\nnext\n"


def test_a_last_line_without_newline_stays_so() -> None:
    assert stdout(b"a\n", b"b") == b"a\nb"
    assert stdout(RECORD, b"b") == RECORD + b"b"


def test_each_stream_has_its_own_lines() -> None:
    found = chunks(
        frame("stdout", RECORD),
        frame("stderr", b"e\n"),
        frame("stdout", b"tail"),
        frame("stderr", b"f\n"),
        frame("stdout", b"next\n"),
    )
    assert [(chunk.stream, chunk.data[:5]) for chunk in found] == [
        ("stdout", b"xxxxx"),
        ("stderr", b"e\n"),
        ("stdout", b"tail"),
        ("stderr", b"f\n"),
        ("stdout", b"\nnext"),
    ]


@pytest.mark.parametrize("data", [b"plain text of a terminal", b"\x01\x00\x01\x00" + bytes(4)])
def test_a_stream_without_frames_is_refused(data: bytes) -> None:
    with pytest.raises(EngineError, match="not multiplexed"):
        list(Demultiplexer().feed(data))

"""Bounded memory."""

from __future__ import annotations

import pytest

from runner.transport.command import Tail


@pytest.mark.parametrize(
    ("blocks", "kept"),
    [
        ([], b""),
        ([b"abc"], b"abc"),
        ([b"abc", b"de"], b"abcde"),
        ([b"abc", b"def"], b"bcdef"),
        ([b"abcdefgh"], b"defgh"),
        ([b"ab", b"cd", b"ef", b"gh"], b"defgh"),
        ([b"", b"abcdefgh", b""], b"defgh"),
    ],
)
def test_the_last_five_bytes_are_kept(blocks: list[bytes], kept: bytes) -> None:
    tail = Tail(5)
    for block in blocks:
        tail.add(block)
    assert tail.value() == kept

"""Lines out of chunks, and what an engine's answer about an image means."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from runner.errors import EngineError
from runner.images.command import engine_argv, follow, inspect
from runner.transport.local import LocalConnection

if TYPE_CHECKING:
    from tests.unit.images.conftest import PlayedEngine


def _lines(*writes: bytes) -> list[str]:
    script = "import os, time\n" + "".join(
        f"os.write(1, {data!r}); time.sleep(0.05)\n" for data in writes
    )
    seen: list[str] = []
    ended = follow(LocalConnection("box"), [sys.executable, "-c", script], seen.append)
    assert ended.exit_code == 0
    assert list(ended.tail) == seen
    return seen


def test_lines_and_characters_may_be_split_anywhere() -> None:
    assert _lines(b"caf\xc3", b"\xa9\nhalf", b" a line\nno end") == [
        "caf\u00e9",
        "half a line",
        "no end",
    ]


def test_carriage_returns_end_lines_and_blank_lines_are_left_out() -> None:
    assert _lines(b"10 %\r20 %\r", b"\nnext\n\n", b"last\r\n") == ["10 %", "20 %", "next", "last"]


def test_logins_in_addresses_are_masked() -> None:
    assert _lines(b"Looking in indexes: https://ann:s3cret@index.test/simple\n") == [
        "Looking in indexes: https://***@index.test/simple"
    ]


def test_only_the_tail_is_kept() -> None:
    script = "for number in range(40): print(number)"
    ended = follow(LocalConnection("box"), [sys.executable, "-c", script], lambda line: None)
    assert ended.tail == tuple(str(number) for number in range(15, 40))


def test_the_host_s_own_command_and_socket_are_used(played: PlayedEngine) -> None:
    argv = engine_argv(played.host, "version")
    assert argv == [str(played.folder / "docker"), "-H", "unix:///run/engine.sock", "version"]


def test_an_absent_image_is_none_and_a_silent_engine_is_an_error(played: PlayedEngine) -> None:
    assert inspect(played.connection, played.host, "a/b:1") is None
    played.answer("image", "inspect", stderr="Cannot connect to the Docker daemon\n", code=1)
    with pytest.raises(EngineError) as caught:
        inspect(played.connection, played.host, "a/b:1")
    assert "Cannot connect to the Docker daemon" in caught.value.what
    assert caught.value.next_step == "runner hosts check box"

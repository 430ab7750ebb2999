"""argv lists and the lines made from them, judged by a shell."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.transport.quoting import announced, end_of_group, quoted, shown

WORDS = st.lists(
    st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])), min_size=1
)


def shell(line: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["sh", "-c", line], capture_output=True, check=False)


@settings(max_examples=40, deadline=None)
@given(WORDS)
def test_a_shell_splits_back_the_same_words(words: list[str]) -> None:
    done = shell(quoted(["printf", r"%s\0", *words]))
    assert done.stdout == b"".join(word.encode() + b"\0" for word in words)


def test_an_empty_command_and_a_nul_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one word"):
        quoted([])
    with pytest.raises(ValueError, match="NUL"):
        announced(["echo", "a\0b"], "mark")


def test_the_announcement_comes_first_and_the_exit_code_is_the_commands() -> None:
    done = shell(announced(["sh", "-c", "echo out; exit 9"], "mark"))
    first, rest = done.stdout.split(b"\n", 1)
    assert first.split()[0] == b"mark"
    assert int(first.split()[1]) > 1
    assert (rest, done.returncode) == (b"out\n", 9)


def test_the_announced_number_is_the_process_group() -> None:
    process = subprocess.Popen(
        ["sh", "-c", announced(["sleep", "600"], "mark")],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    group = int(process.stdout.readline().split()[1])
    assert os.getpgid(process.pid) == group
    ending = subprocess.Popen(["sh", "-c", end_of_group(group)])
    assert process.wait(20) == -15
    assert ending.wait(20) == 0
    process.stdout.close()


def test_ending_a_group_that_is_gone_is_no_error() -> None:
    process = subprocess.Popen(["true"], start_new_session=True)
    process.wait()
    assert shell(end_of_group(process.pid)).returncode == 0


def test_a_message_shows_a_command_in_one_line_of_bounded_length() -> None:
    assert shown(["sh", "-c", "a\nb"]) == "sh -c 'a\\nb'"
    assert shown(["x" * 300]) == "x" * 200 + " ..."

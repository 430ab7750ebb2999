"""What every connection promises, against this machine and against a real sshd."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.errors import CommandFailed, CommandTimedOut, FileMissing, HostError
from runner.models.host import ConnectionKind, Host
from runner.transport import Chunk, Connection, FileStat, Source, connect
from tests.fixtures.sshd import Sshd

MEBIBYTE = 1 << 20


@pytest.fixture(scope="module", params=["local", pytest.param("ssh", marks=pytest.mark.sshd)])
def host(request: pytest.FixtureRequest) -> Host:
    if request.param == "local":
        return Host(name="here", connection=ConnectionKind.LOCAL)
    server: Sshd = request.getfixturevalue("sshd")
    return server.host("far")


@pytest.fixture(scope="module")
def connection(host: Host) -> Iterator[Connection]:
    made = connect(host)
    yield made
    made.close()


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int) -> bool:
    """Whether it is gone, or goes within a few seconds."""
    deadline = time.monotonic() + 5
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def first_line(chunks: Iterator[Chunk]) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        line += next(chunks).data
    return line


# --- run -------------------------------------------------------------------------------------


def test_output_and_exit_code(connection: Connection) -> None:
    done = connection.run(["sh", "-c", "echo out; echo err >&2; exit 3"], check=False)
    assert (done.exit_code, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    assert done.argv == ("sh", "-c", "echo out; echo err >&2; exit 3")


def test_check_turns_an_exit_code_into_an_error(connection: Connection) -> None:
    with pytest.raises(CommandFailed) as caught:
        connection.run(["sh", "-c", "echo one; echo 'no such model' >&2; exit 7"])
    assert caught.value.command_exit_code == 7
    assert caught.value.stderr == "no such model"
    assert "exit code 7: no such model" in str(caught.value)


def test_words_arrive_as_they_are(connection: Connection) -> None:
    words = [
        "two words", "", "it's", 'a "quote"', "line\nbreak", "größe 試験", "$HOME `id` \\n", "*",
        "~", "-n", "a=b", "tab\there", "end\\",
    ]  # fmt: skip
    done = connection.run(["printf", "<%s>", *words])
    assert done.text == "".join(f"<{word}>" for word in words)


def test_a_program_is_run_not_a_builtin_of_a_shell(connection: Connection) -> None:
    assert connection.run(["echo", r"a\tb"]).text == "a\\tb\n"


def test_a_missing_program_is_127(connection: Connection) -> None:
    done = connection.run(["no-such-program-here"], check=False)
    assert done.exit_code == 127
    assert b"not found" in done.stderr


def test_a_killed_command_is_128_and_the_signal(connection: Connection) -> None:
    done = connection.run(["python3", "-c", "import os; os.kill(os.getpid(), 9)"], check=False)
    assert done.exit_code == 128 + signal.SIGKILL


def test_without_stdin_the_input_is_empty(connection: Connection) -> None:
    assert connection.run(["cat"]).stdout == b""


def test_stdin_of_run(connection: Connection) -> None:
    assert connection.run(["cat"], stdin=b"\x00\xff\n").stdout == b"\x00\xff\n"


def test_both_streams_of_five_megabytes(connection: Connection) -> None:
    done = connection.run(["sh", "-c", "head -c 5000000 /dev/zero; head -c 5000000 /dev/zero >&2"])
    assert (len(done.stdout), len(done.stderr)) == (5_000_000, 5_000_000)


def test_memory_is_bounded_and_the_tail_is_kept(connection: Connection) -> None:
    done = connection.run(["sh", "-c", "head -c 20000000 /dev/zero; echo end"])
    assert len(done.stdout) == 8 * MEBIBYTE
    assert done.stdout.endswith(b"\0end\n")


def test_a_deadline_ends_the_process_group(connection: Connection) -> None:
    script = "echo $$; sleep 600 & echo $!; echo trouble >&2; sleep 600"
    with pytest.raises(CommandTimedOut) as caught:
        connection.run(["sh", "-c", script], timeout_s=1.0)
    shell, child = (int(word) for word in caught.value.stdout_tail.split())
    assert gone(shell)
    assert gone(child)
    assert caught.value.stderr_tail.startswith(b"trouble\n")
    assert "did not end within 1 s and was ended" in str(caught.value)


def test_a_deadline_ends_what_ignores_a_polite_signal(connection: Connection) -> None:
    with pytest.raises(CommandTimedOut) as caught:
        connection.run(
            ["sh", "-c", "trap '' TERM; echo $$; while :; do sleep 1; done"], timeout_s=1
        )
    assert gone(int(caught.value.stdout_tail))


def test_a_child_in_the_background_does_not_hold_the_result(connection: Connection) -> None:
    done = connection.run(["sh", "-c", "sleep 600 & echo $!"], timeout_s=30)
    child = int(done.stdout)
    assert alive(child)
    os.kill(child, signal.SIGKILL)


def test_output_after_the_end_of_the_shell_is_whole(connection: Connection) -> None:
    done = connection.run(["sh", "-c", "sleep 600 & echo $! >&2; head -c 3000000 /dev/zero"])
    assert len(done.stdout) == 3_000_000
    os.kill(int(done.stderr), signal.SIGKILL)


def test_commands_from_several_threads(connection: Connection) -> None:
    results: dict[int, str] = {}

    def ask(number: int) -> None:
        results[number] = connection.run(["sh", "-c", f"sleep 0.1; echo {number}"]).text

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: f"{number}\n" for number in range(12)}


# --- stream ----------------------------------------------------------------------------------


def test_a_stream_hands_out_output_before_the_command_ends(connection: Connection) -> None:
    # the command waits for an answer to what it printed: buffering would stop it for ever
    said = threading.Event()

    def answers() -> Iterator[bytes]:
        yield b"one\n"
        assert said.wait(20)
        yield b"two\n"

    with connection.stream(["cat"], stdin=answers(), timeout_s=30) as stream:
        chunks = iter(stream)
        assert next(chunks) == Chunk(Source.STDOUT, b"one\n")
        assert stream.exit_code is None
        said.set()
        assert [chunk.data for chunk in chunks] == [b"two\n"]
        assert stream.exit_code == 0


def test_a_stream_feeds_fifty_megabytes(connection: Connection) -> None:
    block = bytes(range(256)) * 4096
    with connection.stream(["sha256sum"], stdin=(block for _ in range(50))) as stream:
        out = b"".join(chunk.data for chunk in stream)
    assert out.split()[0].decode() == hashlib.sha256(block * 50).hexdigest()
    assert stream.exit_code == 0


def test_a_stream_feeds_and_returns_at_the_same_time(connection: Connection) -> None:
    with connection.stream(["cat"], stdin=[b"x" * (20 * MEBIBYTE)]) as stream:
        assert sum(len(chunk.data) for chunk in stream) == 20 * MEBIBYTE


def test_a_command_may_end_before_its_input(connection: Connection) -> None:
    block = b"x" * MEBIBYTE
    argv = ["sh", "-c", "head -c 10; exit 4"]
    with connection.stream(argv, stdin=(block for _ in range(50))) as stream:
        out = b"".join(chunk.data for chunk in stream)
    assert (out, stream.exit_code) == (b"x" * 10, 4)


def test_an_error_of_the_input_is_raised_and_is_no_end_of_input(
    connection: Connection, tmp_path: Path
) -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError("the disk went away")

    mark = tmp_path / "whole"
    argv = ["sh", "-c", f"cat > /dev/null; touch {mark}"]
    with (
        pytest.raises(RuntimeError, match="the disk went away"),
        connection.stream(argv, stdin=broken()) as stream,
    ):
        list(stream)
    assert not mark.exists()


def test_leaving_a_stream_ends_the_command(connection: Connection) -> None:
    with connection.stream(["sh", "-c", "echo $$; sleep 600"]) as stream:
        pid = int(first_line(iter(stream)))
        assert alive(pid)
    assert gone(pid)


def test_leaving_a_stream_without_reading_ends_the_command(
    connection: Connection, tmp_path: Path
) -> None:
    note = tmp_path / "pid"
    with connection.stream(["sh", "-c", f"echo $$ > {note}; yes"]):
        deadline = time.monotonic() + 10
        while not (note.exists() and note.read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)
    assert gone(int(note.read_text()))


def test_a_stream_has_a_deadline(connection: Connection) -> None:
    with (
        pytest.raises(CommandTimedOut) as caught,
        connection.stream(["sh", "-c", "echo $$; exec sleep 600"], timeout_s=1) as stream,
    ):
        list(stream)
    assert gone(int(caught.value.stdout_tail))


# --- files -----------------------------------------------------------------------------------


def test_put_makes_folders_and_get_reads_ranges(connection: Connection, tmp_path: Path) -> None:
    path = str(tmp_path / "a" / "b c" / "größe.bin")
    data = bytes(range(256)) * 1000
    connection.put(path, data, mode=0o600)
    assert connection.get(path) == data
    assert connection.get(path, offset=255_998) == b"\xfe\xff"
    assert connection.get(path, offset=10, limit_bytes=3) == b"\x0a\x0b\x0c"
    assert connection.get(path, offset=100, limit_bytes=200_000) == data[100:200_100]
    assert connection.get(path, offset=256_000) == b""
    assert connection.get(path, offset=999_999) == b""
    assert connection.get(path, limit_bytes=0) == b""
    assert Path(path).stat().st_mode & 0o777 == 0o600


def test_put_replaces_and_leaves_nothing_behind(connection: Connection, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    connection.put(path, b"old and long")
    connection.put(path, b"new")
    assert connection.get(path) == b"new"
    assert connection.list(str(tmp_path)) == ("file",)
    assert Path(path).stat().st_mode & 0o777 == 0o644


def test_put_that_fails_leaves_nothing_behind(connection: Connection, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "inside").touch()
    with pytest.raises(HostError, match="could not write"):
        connection.put(str(tmp_path / "taken"), b"data")
    assert connection.list(str(tmp_path)) == ("taken",)


def test_an_empty_file(connection: Connection, tmp_path: Path) -> None:
    path = str(tmp_path / "empty")
    connection.put(path, b"")
    assert connection.get(path) == b""
    assert connection.get(path, offset=5) == b""


def test_a_file_that_has_no_size_is_read_to_its_end(connection: Connection) -> None:
    assert connection.get("/proc/version") == Path("/proc/version").read_bytes()
    assert connection.get("/proc/version", offset=1, limit_bytes=4) == b"inux"


def test_a_big_file(connection: Connection, tmp_path: Path) -> None:
    path = str(tmp_path / "big")
    data = os.urandom(MEBIBYTE) * 20
    connection.put(path, data)
    assert connection.get(path) == data


def test_following_a_file_that_grows(connection: Connection, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\n")
    seen = connection.get(str(path))
    with path.open("ab") as file:
        file.write(b"two\n")
    assert connection.get(str(path), offset=len(seen)) == b"two\n"


def test_a_missing_file(connection: Connection, tmp_path: Path) -> None:
    path = str(tmp_path / "nothing")
    with pytest.raises(FileMissing, match=f"could not read {path}: no such file"):
        connection.get(path)
    assert connection.stat(path) is None
    assert connection.list(path) == ()


def test_a_folder_is_not_read(connection: Connection, tmp_path: Path) -> None:
    with pytest.raises(HostError, match=f"could not read {tmp_path}"):
        connection.get(str(tmp_path))


def test_stat(connection: Connection, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert connection.stat(str(path)) == FileStat(5, 1_700_000_000.0, False)
    folder = connection.stat(str(tmp_path))
    assert folder is not None
    assert folder.is_directory


def test_list_is_sorted(connection: Connection, tmp_path: Path) -> None:
    for name in ("b", ".hidden", "a", "z y"):
        (tmp_path / name).touch()
    assert connection.list(str(tmp_path)) == (".hidden", "a", "b", "z y")


def test_close_twice(host: Host) -> None:
    made = connect(host)
    assert made.name == host.name
    made.close()
    made.close()

"""What only a connection over SSH can get wrong, against a real sshd."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.errors import (
    ConnectionLost,
    HostError,
    HostKeyChanged,
    HostKeyUnknown,
    HostUnreachable,
)
from runner.models.host import Host
from runner.transport import connect
from tests.fixtures.sshd import Sshd, make_key

pytestmark = pytest.mark.sshd


@pytest.fixture
def running(sshd: Sshd) -> Iterator[Sshd]:
    """The server, listening again after a test that cuts it."""
    yield sshd
    if sshd.process is None:
        sshd.start()


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An ssh-agent of the test's own; the folder for its keys."""
    place = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(place)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    monkeypatch.setenv("SSH_AUTH_SOCK", str(place))
    yield tmp_path
    process.terminate()
    process.wait()
    process.stdout.close()


@pytest.fixture
def no_own_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's own ~/.ssh and agent play a part."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


def add_key(file: Path) -> None:
    subprocess.run(["ssh-add", "-q", str(file)], check=True, stdin=subprocess.DEVNULL)


def answers(host: Host) -> str:
    connection = connect(host)
    try:
        return connection.run(["echo", "here"]).text
    finally:
        connection.close()


# --- host keys -------------------------------------------------------------------------------


def test_an_unknown_key_is_refused_with_what_is_needed(sshd: Sshd, tmp_path: Path) -> None:
    empty = tmp_path / "known_hosts"
    with pytest.raises(HostKeyUnknown) as caught:
        connect(sshd.host("lab", known_hosts=str(empty)))
    text = str(caught.value)
    assert f"lab ({sshd.user}@127.0.0.1:{sshd.port})" in text
    assert f"{sshd.lookup_name} offers ssh-ed25519 {sshd.fingerprint}" in text
    assert f"{empty} (absent)" in text
    assert f"ssh-keyscan -p {sshd.port} -t ed25519 127.0.0.1 >> {empty}" in text
    assert not empty.exists()


def test_following_the_advice_makes_it_known(sshd: Sshd, tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    scan = ["ssh-keyscan", "-p", str(sshd.port), "-t", "ed25519", "127.0.0.1"]
    file.write_bytes(subprocess.run(scan, check=True, capture_output=True).stdout)
    assert answers(sshd.host("lab", known_hosts=str(file))) == "here\n"


def test_the_bare_form_does_not_count_for_another_port(sshd: Sshd, tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"127.0.0.1 {sshd.host_key_line}\n")
    with pytest.raises(HostKeyUnknown):
        connect(sshd.host("lab", known_hosts=str(file)))


def test_a_changed_key_is_another_error(sshd: Sshd, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    line = " ".join(Path(f"{other}.pub").read_text().split()[:2])
    file = tmp_path / "known_hosts"
    file.write_text(f"# old\n{sshd.lookup_name} {line}\n")
    before = file.read_bytes()
    with pytest.raises(HostKeyChanged) as caught:
        connect(sshd.host("lab", known_hosts=str(file)))
    text = str(caught.value)
    assert sshd.fingerprint in text
    assert f"{file}:2" in text
    assert f"ssh-keygen -R '{sshd.lookup_name}' -f {file}" in text
    assert file.read_bytes() == before


def test_a_hashed_entry_counts(sshd: Sshd, tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"{sshd.lookup_name} {sshd.host_key_line}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(file)], check=True, capture_output=True)
    assert file.read_text().startswith("|1|")
    assert answers(sshd.host("lab", known_hosts=str(file))) == "here\n"


# --- login -----------------------------------------------------------------------------------


def test_a_refused_login_names_user_address_and_keys(
    sshd: Sshd, tmp_path: Path, no_own_keys: None
) -> None:
    stranger = make_key(tmp_path / "stranger")
    with pytest.raises(HostError) as caught:
        connect(sshd.host("lab", identity_file=str(stranger)))
    text = str(caught.value)
    assert f"login refused for user '{sshd.user}' on 127.0.0.1 port {sshd.port}" in text
    assert f"{stranger} (ssh-ed25519 SHA256:" in text
    assert "ssh-copy-id -i" in text


def test_a_missing_key_file_is_named(sshd: Sshd, tmp_path: Path, no_own_keys: None) -> None:
    with pytest.raises(HostError, match=f"{tmp_path}/nothing: no such file"):
        connect(sshd.host("lab", identity_file=f"{tmp_path}/nothing"))


def test_the_named_key_is_offered_alone_though_the_agent_holds_many(
    sshd: Sshd, agent: Path
) -> None:
    for number in range(8):
        add_key(make_key(agent / f"k{number}"))
    assert answers(sshd.host("lab")) == "here\n"
    with pytest.raises(HostError, match="too many attempts") as caught:
        connect(sshd.host("lab", identity_file=None))
    assert "name the key with 'identity_file'" in str(caught.value)


def test_the_agent_signs_for_an_encrypted_key_file(sshd: Sshd, agent: Path) -> None:
    add_key(sshd.identity_file)
    locked = agent / "locked"
    locked.write_bytes(sshd.identity_file.read_bytes())
    locked.chmod(0o600)
    change = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(locked)]
    subprocess.run(change, check=True, capture_output=True)
    Path(f"{locked}.pub").write_bytes(Path(f"{sshd.identity_file}.pub").read_bytes())
    assert answers(sshd.host("lab", identity_file=str(locked))) == "here\n"


def test_an_encrypted_key_is_unlocked_by_whoever_is_asked(
    sshd: Sshd, tmp_path: Path, no_own_keys: None
) -> None:
    locked = tmp_path / "locked"
    locked.write_bytes(sshd.identity_file.read_bytes())
    locked.chmod(0o600)
    change = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(locked)]
    subprocess.run(change, check=True, capture_output=True)
    host = sshd.host("lab", identity_file=str(locked))
    with pytest.raises(HostError, match="encrypted, and no ssh agent holds it"):
        connect(host)
    asked: list[str] = []

    def prompt(text: str) -> str:
        asked.append(text)
        return "secret"

    connection = connect(host, password_prompt=prompt)
    assert connection.run(["echo", "here"]).text == "here\n"
    connection.close()
    assert asked == [f"Passphrase of {locked}: "]
    with pytest.raises(HostError, match="wrong passphrase"):
        connect(host, password_prompt=lambda _: "guess")


# --- the way there ---------------------------------------------------------------------------


def test_an_alias_of_the_ssh_configuration(sshd: Sshd, tmp_path: Path) -> None:
    config = tmp_path / "config"
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "gpu").write_text(
        f"Host gpu-a\n  HostName 127.0.0.1\n  Port {sshd.port}\n  User {sshd.user}\n"
        f"  IdentityFile {sshd.identity_file}\n  UserKnownHostsFile {sshd.known_hosts}\n"
    )
    config.write_text("Include conf.d/*\nHost *\n  User fallback\n")
    assert answers(Host(name="gpu-a", ssh_config=str(config))) == "here\n"


def test_through_jump_hosts(sshd: Sshd, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        f"Host hop\n  HostName 127.0.0.1\n  Port {sshd.port}\n  User {sshd.user}\n"
        f"Host far\n  ProxyJump hop,{sshd.user}@127.0.0.1:{sshd.port}\n"
    )
    config.write_text(config.read_text() + "  HostName 127.0.0.1\n")
    before = sshd.logins()
    connection = connect(sshd.host("far", address="far", ssh_config=str(config)))
    assert connection.run(["echo", "here"]).text == "here\n"
    assert sshd.logins() == before + 3
    data = os.urandom(3_000_000)
    connection.put(str(tmp_path / "file"), data)
    assert connection.get(str(tmp_path / "file")) == data
    connection.close()


def test_the_key_of_a_jump_host_is_checked(sshd: Sshd, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host hop\n  HostName localhost\n  Port {sshd.port}\n  User {sshd.user}\n")
    host = sshd.host("far", jump="hop", ssh_config=str(config))
    with pytest.raises(HostKeyUnknown) as caught:
        connect(host)
    assert f"[localhost]:{sshd.port} offers ssh-ed25519" in str(caught.value)
    assert str(caught.value).startswith(f"hop ({sshd.user}@localhost:{sshd.port}): ")


def test_a_jump_host_that_can_not_reach_the_target(sshd: Sshd) -> None:
    hop = f"{sshd.user}@127.0.0.1:{sshd.port}"
    with pytest.raises(HostUnreachable) as caught:
        connect(sshd.host("far", address="localhost", port=1, jump=hop))
    assert "can't open a way to localhost port 1" in str(caught.value)


def test_nobody_listens(sshd: Sshd) -> None:
    with pytest.raises(HostUnreachable, match="port 1: Connection refused"):
        connect(sshd.host("lab", port=1))


def test_something_else_listens(sshd: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def hang_up() -> None:
            way, _ = listener.accept()
            way.sendall(b"HTTP/1.0 400 no\r\n\r\n")
            way.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(HostUnreachable, match="SSH does not come about"):
            connect(sshd.host("lab", port=port))
        thread.join()


# --- a broken link ---------------------------------------------------------------------------


def test_a_link_that_breaks_while_streaming(running: Sshd) -> None:
    connection = connect(running.host("lab"))
    with connection.stream(["sh", "-c", "echo $$; exec sleep 600"]) as stream:
        chunks = iter(stream)
        pid = int(next(chunks).data)
        running.stop()
        with pytest.raises(ConnectionLost) as caught:
            list(chunks)
    assert "the connection broke while `sh -c" in str(caught.value)
    # the work on the host goes on
    os.kill(pid, signal.SIGKILL)
    for attempt in (
        lambda: connection.run(["true"]),
        lambda: connection.get("/etc/hostname"),
        lambda: connection.stat("/etc/hostname"),
        lambda: connection.put("/nowhere/file", b""),
        lambda: connection.list("/"),
    ):
        with pytest.raises(ConnectionLost):
            attempt()
    connection.close()
    with pytest.raises(HostUnreachable):
        connect(running.host("lab"))
    running.start()
    assert answers(running.host("lab")) == "here\n"


def test_a_link_that_breaks_while_feeding(running: Sshd) -> None:
    connection = connect(running.host("lab"))

    def endless() -> Iterator[bytes]:
        for number in range(1000):
            if number == 20:
                running.stop()
            yield b"x" * (1 << 20)

    with (
        pytest.raises(ConnectionLost),
        connection.stream(["sh", "-c", "cat > /dev/null"], stdin=endless()) as stream,
    ):
        list(stream)
    connection.close()


def test_a_link_that_breaks_between_two_reads_of_a_file(running: Sshd, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one\n")
    connection = connect(running.host("lab"))
    assert connection.get(str(tmp_path / "log")) == b"one\n"
    running.stop()
    with pytest.raises(ConnectionLost, match="trying to read"):
        connection.get(str(tmp_path / "log"), offset=4)
    connection.close()


# --- limits of a session ---------------------------------------------------------------------


def test_more_commands_than_sessions_wait_for_their_turn(sshd: Sshd, tmp_path: Path) -> None:
    connection = connect(sshd.host("lab"))
    streams = [connection.stream(["cat"], stdin=iter(())) for _ in range(7)]
    held = [connection.stream(["sleep", "600"])]
    # SFTP and ending a command still have room
    connection.put(str(tmp_path / "file"), b"data")
    with pytest.raises(HostError, match="8 commands run over this connection"):
        connection.run(["true"], timeout_s=0.2)
    for stream in (*held, *streams):
        stream.__exit__(None, None, None)
    assert connection.run(["echo", "again"]).text == "again\n"
    connection.close()


def test_words_that_are_too_long_for_a_remote_shell(sshd: Sshd) -> None:
    connection = connect(sshd.host("lab"))
    with pytest.raises(HostError, match="sshd takes 131071"):
        connection.run(["echo", "x" * 140_000])
    connection.close()


def test_what_start_up_files_print_is_not_output(sshd: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "noisy")
    command = 'echo Welcome; echo motd; exec sh -c \\"$SSH_ORIGINAL_COMMAND\\"'
    sshd.authorize(Path(f"{key}.pub"), options=f'command="{command}"')
    connection = connect(sshd.host("lab", identity_file=str(key)))
    done = connection.run(["sh", "-c", "echo one; exit 5"], check=False)
    assert (done.exit_code, done.stdout) == (5, b"one\n")
    connection.close()


def test_a_login_shell_that_runs_nothing(sshd: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "closed")
    sshd.authorize(Path(f"{key}.pub"), options='command="echo this account is closed"')
    connection = connect(sshd.host("lab", identity_file=str(key)))
    with pytest.raises(HostError, match="did not run `id`; it said: this account is closed"):
        connection.run(["id"])
    connection.close()


def test_a_shell_that_is_killed_leaves_no_exit_code(sshd: Sshd) -> None:
    connection = connect(sshd.host("lab"))
    with pytest.raises(HostError, match="ended without an exit code: its shell was killed"):
        connection.run(["sh", "-c", "kill -9 $PPID"])
    assert connection.run(["echo", "again"]).text == "again\n"
    connection.close()

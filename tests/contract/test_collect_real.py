"""Collect against the real engine and the real sshd: files of root, a link that is cut."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from runner.artifacts.atomic import write_json
from runner.artifacts.hashing import build_manifest
from runner.artifacts.store import Store
from runner.client.collect import Progress, collect_run
from runner.errors import ConnectionLost, EngineError
from runner.models.host import ConnectionKind, EngineAccess, Host
from runner.transport import connect
from runner.transport.base import Stream
from runner.transport.local import LocalConnection
from tests.fixtures.sshd import Sshd

RUN = "20261201T101500Z-quick-3f9a"
NOBODY = "65534"
WRITE = f"""
import hashlib, json, os
os.umask(0o077)
os.makedirs("a/deep")
os.makedirs("cells/c/attempt-1")
files = {{"a/deep/r.json": "{{}}", "a/b.bin": "x" * 300000, "cells/c/attempt-1/result.json": "1"}}
for path, text in files.items():
    open(path, "w").write(text)
os.chmod("a/deep", 0o500)
os.symlink("/etc", "latest")
os.symlink("/etc/passwd", "a/passwd")
files["plan.json"] = open("plan.json").read()
entries = [
    {{"path": p, "size_bytes": len(t), "sha256": hashlib.sha256(t.encode()).hexdigest()}}
    for p, t in sorted(files.items())
]
manifest = {{"run_id": "{RUN}", "job": "quick", "created_at": "now", "files": entries,
             "refused": ["latest -> /etc (symbolic link)"]}}
open("manifest.json", "w").write(json.dumps(manifest))
"""


class UnprivilegedConnection(LocalConnection):
    """This machine as a login user sees it who is not root but may use the engine."""

    def __init__(self, socket: str):
        super().__init__()
        group = str(Path(socket).stat().st_gid)
        self._user = ("setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--groups", group)

    def stream(
        self,
        argv: Sequence[str],
        *,
        stdin: Iterable[bytes] | None = None,
        timeout_s: float | None = None,
    ) -> Stream:
        whoever = self._user if os.geteuid() == 0 else ()
        return super().stream((*whoever, *argv), stdin=stdin, timeout_s=timeout_s)


def docker(socket: str, *argv: str) -> None:
    subprocess.run(["docker", "-H", f"unix://{socket}", *argv], check=True, capture_output=True)


@pytest.fixture
def run_dir(engine_socket: str, base_image: str) -> Iterator[Path]:
    """A finished run whose files are 0600 of root, one in a 0500 folder, with links to /etc."""
    # pytest's own temporary folders are closed to other users
    root = Path(tempfile.mkdtemp(prefix="runner-collect-"))
    root.chmod(0o755)
    folder = root / "quick" / RUN
    folder.mkdir(parents=True)
    plan = {"run_id": RUN, "job": "quick", "supervisor": {"image": base_image}}
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "plan.json").chmod(0o644)
    mount = f"type=bind,source={folder},target=/out"
    as_root = ("run", "--rm", "--network", "none", "--mount", mount, "--workdir", "/out")
    docker(engine_socket, *as_root, base_image, "python3", "-c", WRITE)
    yield folder
    emptied = ("find", "/out", "-mindepth", "1", "-delete")
    docker(engine_socket, *as_root, base_image, *emptied)
    shutil.rmtree(root)


@pytest.fixture
def host(engine_socket: str, run_dir: Path) -> Host:
    return Host(
        name="local",
        connection=ConnectionKind.LOCAL,
        run_root=str(run_dir.parents[1]),
        engine=EngineAccess(socket=engine_socket),
    )


def content(tree: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(tree)): path.read_bytes() for path in tree.rglob("*") if path.is_file()
    }


@pytest.mark.engine
def test_files_of_root_come_through_a_container(
    engine_socket: str, run_dir: Path, host: Host, tmp_path: Path
) -> None:
    store = Store(tmp_path / "artifacts")
    connection = UnprivilegedConnection(engine_socket)
    outcome = collect_run(connection, host, str(run_dir), store)
    assert (outcome.as_root, outcome.complete, outcome.new) == (True, True, True)
    files = content(outcome.run.tree)
    assert json.loads(files.pop("manifest.json"))["run_id"] == RUN
    assert files.pop("plan.json") == (run_dir / "plan.json").read_bytes()
    assert files == {
        "a/deep/r.json": b"{}",
        "a/b.bin": b"x" * 300_000,
        "cells/c/attempt-1/result.json": b"1",
    }
    assert [path for path in outcome.run.tree.rglob("*") if path.is_symlink()] == []
    assert outcome.left_out == ("latest -> /etc (symbolic link)",)
    assert (outcome.run.tree / "a/deep/r.json").stat().st_mode & 0o777 == 0o444
    assert store.verify(RUN) == ()
    again = collect_run(connection, host, str(run_dir), store)
    assert (again.new, again.received_bytes) == (False, 0)


@pytest.mark.engine
def test_only_what_was_refused_comes_through_a_container(
    engine_socket: str, base_image: str, run_dir: Path, host: Host, tmp_path: Path
) -> None:
    mount = f"type=bind,source={run_dir},target=/out"
    opened = ("chmod", "-R", "a+rX", "/out/manifest.json", "/out/cells")
    docker(engine_socket, "run", "--rm", "--mount", mount, base_image, *opened)
    store = Store(tmp_path / "artifacts")
    archives: list[bool] = []

    class Watched(UnprivilegedConnection):
        def stream(
            self,
            argv: Sequence[str],
            *,
            stdin: Iterable[bytes] | None = None,
            timeout_s: float | None = None,
        ) -> Stream:
            if "tar" in argv:
                archives.append("docker" in argv)
            return super().stream(argv, stdin=stdin, timeout_s=timeout_s)

    outcome = collect_run(Watched(engine_socket), host, str(run_dir), store)
    assert archives == [False, True]
    assert (outcome.received_files, outcome.complete, outcome.as_root) == (4, True, True)
    assert (outcome.run.tree / "a/deep/r.json").read_bytes() == b"{}"
    assert store.verify(RUN) == ()


@pytest.mark.engine
def test_a_run_that_goes_on_is_listed_as_root_too(
    engine_socket: str, base_image: str, run_dir: Path, host: Host, tmp_path: Path
) -> None:
    mount = f"type=bind,source={run_dir},target=/out"
    docker(engine_socket, "run", "--rm", "--mount", mount, base_image, "rm", "/out/manifest.json")
    store = Store(tmp_path / "artifacts")
    outcome = collect_run(UnprivilegedConnection(engine_socket), host, str(run_dir), store)
    assert (outcome.as_root, outcome.complete) == (True, False)
    assert sorted(content(outcome.run.tree)) == ["cells/c/attempt-1/result.json", "plan.json"]
    assert outcome.left_out == (
        "a/b.bin: not known to be whole before the run ends",
        "a/deep/r.json: not known to be whole before the run ends",
        "a/passwd -> /etc/passwd (symbolic link)",
        "latest -> /etc (symbolic link)",
    )


@pytest.mark.engine
def test_an_image_that_is_gone_is_the_engines_fault(
    engine_socket: str, run_dir: Path, host: Host, tmp_path: Path
) -> None:
    plan = {"run_id": RUN, "job": "quick", "supervisor": {"image": "runner/absent:never"}}
    (run_dir / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(EngineError) as caught:
        collect_run(
            UnprivilegedConnection(engine_socket), host, str(run_dir), Store(tmp_path / "artifacts")
        )
    assert "did not start a container to read" in str(caught.value)
    assert caught.value.next_step == "runner hosts check local"


@pytest.mark.sshd
def test_over_ssh_a_link_that_is_cut_loses_nothing(sshd: Sshd, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "quick" / RUN
    folder.mkdir(parents=True)
    plan = {"run_id": RUN, "job": "quick", "supervisor": {"image": "none"}}
    (folder / "plan.json").write_text(json.dumps(plan))
    for number in range(10):
        (folder / f"export-{number}").write_bytes(bytes([number]) * (6 << 20))
    for number in range(2000):
        (folder / f"{'small' * 20}-{number:04d}").write_text(str(number))
    write_json(folder / "manifest.json", build_manifest(folder, RUN, "quick", "now"))
    host = sshd.host("far", run_root=str(tmp_path / "runs"))
    store = Store(tmp_path / "artifacts")

    def cut(progress: Progress) -> None:
        if progress.received_bytes > 20 << 20:
            sshd.stop()

    first = connect(host)
    try:
        with pytest.raises(ConnectionLost) as caught:
            collect_run(first, host, str(folder), store, cut)
    finally:
        first.close()
        sshd.start()
    assert caught.value.next_step == f"runner collect {RUN} goes on from there"
    second = connect(host)
    try:
        outcome = collect_run(second, host, str(folder), store)
        again = collect_run(second, host, str(folder), store)
    finally:
        second.close()
    assert (outcome.complete, outcome.run.version) == (True, 1)
    # three files of 6 MiB had come whole at the least
    assert outcome.received_bytes < 7 * (6 << 20) + (4 << 20)
    assert content(outcome.run.tree) == content(folder)
    assert store.verify(RUN) == ()
    assert (again.new, again.received_bytes) == (False, 0)

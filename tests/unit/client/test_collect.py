"""Collect over the local connection: the same commands as over SSH, run for real."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.artifacts.atomic import write_json
from runner.artifacts.hashing import build_manifest
from runner.artifacts.store import Store
from runner.client.collect import Progress, collect_run, runs_on_host, with_news
from runner.errors import (
    ArtifactError,
    CommandFailed,
    ConnectionLost,
    FileMissing,
    ManifestMismatch,
    UnsafeArchive,
)
from runner.journal.writer import Journal
from runner.models.event import EventKind
from runner.models.host import ConnectionKind, Host
from runner.models.status import Reason, Status
from runner.transport.base import Chunk, Source, Stream
from runner.transport.local import LocalConnection

RUN = "20261201T101500Z-quick-3f9a"
AT = "2026-12-01T10:16:00.000Z"
BIG_BYTES = 300_000


class FakeStream:
    """Output that a test made up, in place of a command's."""

    def __init__(self, chunks: Iterable[Chunk], exit_code: int = 0):
        self.exit_code: int | None = None
        self._chunks = chunks
        self._ends_with = exit_code

    def __enter__(self) -> FakeStream:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __iter__(self) -> Iterator[Chunk]:
        yield from self._chunks
        self.exit_code = self._ends_with


class TarConnection(LocalConnection):
    """The local connection, with a hand in what tar sends."""

    def __init__(self, change: Callable[[Iterable[Chunk]], Stream]):
        super().__init__()
        self._change = change

    def stream(
        self,
        argv: Sequence[str],
        *,
        stdin: Iterable[bytes] | None = None,
        timeout_s: float | None = None,
    ) -> Stream:
        real = super().stream(argv, stdin=stdin, timeout_s=timeout_s)
        if "tar" not in argv:
            return real

        def chunks() -> Iterator[Chunk]:
            with real:
                yield from real

        return self._change(chunks())


def cut_after(size_bytes: int) -> TarConnection:
    """The link breaks when so many bytes of the archive have come."""

    def chunks(real: Iterable[Chunk]) -> Iterator[Chunk]:
        left = size_bytes
        for chunk in real:
            yield Chunk(chunk.source, chunk.data[:left])
            left -= len(chunk.data)
            if left <= 0:
                raise ConnectionLost("reset by peer")

    return TarConnection(lambda real: FakeStream(chunks(real)))


def sends(*members: tarfile.TarInfo, stderr: bytes = b"", exit_code: int = 0) -> TarConnection:
    """The host sends these members, whatever it was asked for."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    chunks = [Chunk(Source.STDERR, stderr), Chunk(Source.STDOUT, buffer.getvalue())]
    return TarConnection(lambda _: FakeStream(chunks, exit_code))


class RunOnHost:
    """A run folder as a supervisor leaves it."""

    def __init__(self, root: Path):
        self.root = root / "quick" / RUN
        self.root.mkdir(parents=True)
        plan = {"run_id": RUN, "job": "quick", "supervisor": {"image": "runner/supervisor:1"}}
        self.write("plan.json", json.dumps(plan))
        self.write("host.json", "{}")
        self.write("inputs/chat.jsonl", '{"text": "hi"}\n')
        self.write("supervisor.log", "started\n")
        self.journal = Journal(self.root / "journal.jsonl")
        self.journal.append(EventKind.RUN_STARTED)
        self.write("servers/s/attempt-1/spec.json", "{}")
        self.write("servers/s/attempt-1/output.log", "loading\n")

    def write(self, path: str, data: str | bytes) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data.encode() if isinstance(data, str) else data)
        return target

    def append(self, path: str, text: str) -> None:
        with (self.root / path).open("a") as file:
            file.write(text)

    def cell(self, name: str, *, ended: bool = True) -> None:
        folder = f"cells/{name}/attempt-1"
        self.write(f"{folder}/load/aiperf/profile_export.jsonl", name.encode() * 5000)
        if ended:
            self.write(f"{folder}/result.json", json.dumps({"cell": name}))

    def end(self) -> None:
        """What a supervisor does last: final event, then the manifest."""
        self.write("servers/s/attempt-1/result.json", "{}")
        self.write("control/stop.json", "{}")
        self.journal.append(EventKind.RUN_ENDED, status=Status.SUCCEEDED, reason=Reason.COMPLETED)
        self.write_manifest()

    def write_manifest(self) -> None:
        write_json(self.root / "manifest.json", build_manifest(self.root, RUN, "quick", AT))

    def files(self) -> dict[str, bytes]:
        """Everything that a collect of the finished run has to bring."""
        found = {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file() and not path.is_symlink()
        }
        return {path: data for path, data in found.items() if not path.startswith("control/")}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunOnHost]:
    made = RunOnHost(tmp_path / "runs")
    yield made
    made.journal.close()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(name="local", connection=ConnectionKind.LOCAL, run_root=str(tmp_path / "runs"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "artifacts")


def content(tree: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(tree)): path.read_bytes() for path in tree.rglob("*") if path.is_file()
    }


def everything(root: Path) -> dict[str, tuple[int, int, int, int]]:
    found = {}
    for path in [root, *root.rglob("*")]:
        status = path.lstat()
        key = str(path.relative_to(root))
        found[key] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode)
    return found


def test_a_finished_run_comes_whole_and_verified(run: RunOnHost, host: Host, store: Store) -> None:
    run.cell("a")
    run.write("cells/-odd\nnamé/" + "x" * 120 + "/e", b"")
    (run.root / "latest").symlink_to("/etc")
    run.end()
    seen: list[Progress] = []
    outcome = collect_run(LocalConnection(), host, str(run.root), store, seen.append)
    assert content(outcome.run.tree) == run.files()
    record = outcome.run.record
    assert (outcome.new, outcome.complete, outcome.as_root) == (True, True, False)
    assert (record.run_id, record.job, record.host, record.status, record.version) == (
        RUN,
        "quick",
        "local",
        "SUCCEEDED",
        1,
    )
    assert outcome.left_out == ("latest -> /etc (symbolic link)",)
    assert store.verify(RUN) == ()
    assert not (store.root / ".partial" / RUN).exists()
    assert seen[-1].received_bytes == outcome.received_bytes
    # files of equal content are sent once: "{}" is there three times
    assert seen[-1].files_total == outcome.received_files == len(set(run.files().values())) - 1


def test_collecting_a_finished_run_twice_changes_nothing(
    run: RunOnHost, host: Host, store: Store
) -> None:
    run.cell("a")
    run.end()
    first = collect_run(LocalConnection(), host, str(run.root), store)
    before = everything(store.root)
    second = collect_run(LocalConnection(), host, str(run.root), store)
    after = everything(store.root)
    assert after == before
    assert second.run == first.run
    assert (second.new, second.received_files, second.received_bytes) == (False, 0, 0)


def test_a_run_that_is_going_on_gives_what_is_whole(
    run: RunOnHost, host: Host, store: Store
) -> None:
    run.cell("a")
    run.cell("b", ended=False)
    outcome = collect_run(LocalConnection(), host, str(run.root), store)
    assert (outcome.complete, outcome.run.record.status) == (False, "RUNNING")
    expected = run.files()
    del expected["cells/b/attempt-1/load/aiperf/profile_export.jsonl"]
    assert content(outcome.run.tree) == expected
    assert outcome.left_out == (
        "cells/b/attempt-1: still going",
        "servers/s/attempt-1: still going; only its specification, inspect output and log so far",
    )
    before = everything(store.root)
    again = collect_run(LocalConnection(), host, str(run.root), store)
    after = everything(store.root)
    assert after == before
    assert (again.new, again.received_bytes) == (False, 0)


def test_a_run_that_grows_makes_versions(run: RunOnHost, host: Host, store: Store) -> None:
    run.cell("a")
    first = collect_run(LocalConnection(), host, str(run.root), store)
    old = content(first.run.tree)
    listed = everything(first.run.tree)
    run.append("servers/s/attempt-1/output.log", "ready\n")
    run.cell("b")
    second = collect_run(LocalConnection(), host, str(run.root), store)
    # the log that grew, and the two new files
    assert (second.run.version, second.new, second.received_files) == (2, True, 3)
    run.end()
    third = collect_run(LocalConnection(), host, str(run.root), store)
    assert (third.run.version, third.complete) == (3, True)
    assert third.run.record.status == "SUCCEEDED"
    assert content(first.run.tree) == old
    assert everything(first.run.tree) == listed
    assert content(third.run.link) == run.files()
    unchanged = "cells/a/attempt-1/load/aiperf/profile_export.jsonl"
    inodes = {(r.tree / unchanged).stat().st_ino for r in store.versions(RUN)}
    assert len(inodes) == 1
    assert [store.verify(RUN, number) for number in (1, 2, 3)] == [(), (), ()]


def test_a_file_of_the_same_size_that_is_newer_comes_again(
    run: RunOnHost, host: Host, store: Store
) -> None:
    collect_run(LocalConnection(), host, str(run.root), store)
    facts = run.write("host.json", "[]")
    os.utime(facts, ns=(1, facts.stat().st_mtime_ns + 1_000_000_000))
    outcome = collect_run(LocalConnection(), host, str(run.root), store)
    assert (outcome.run.version, outcome.received_files) == (2, 1)
    assert (outcome.run.tree / "host.json").read_text() == "[]"


def test_a_file_that_grows_while_it_is_copied_is_cut_where_it_was_listed(
    run: RunOnHost, host: Host, store: Store
) -> None:
    class Growing(LocalConnection):
        def stream(
            self,
            argv: Sequence[str],
            *,
            stdin: Iterable[bytes] | None = None,
            timeout_s: float | None = None,
        ) -> Stream:
            if "tar" in argv:
                run.append("supervisor.log", "after the listing\n")
            return super().stream(argv, stdin=stdin, timeout_s=timeout_s)

    outcome = collect_run(Growing(), host, str(run.root), store)
    assert (outcome.run.tree / "supervisor.log").read_text() == "started\n"


def test_tar_may_say_that_a_growing_file_changed_but_no_other(
    run: RunOnHost, host: Host, store: Store
) -> None:
    def with_exit(path: bytes) -> TarConnection:
        said = Chunk(Source.STDERR, b"tar: " + path + b": file changed as we read it\n")
        return TarConnection(lambda real: FakeStream([said, *real], exit_code=1))

    with pytest.raises(CommandFailed) as caught:
        collect_run(with_exit(b"host.json"), host, str(run.root), store)
    assert "tar: host.json: file changed as we read it" in str(caught.value)
    assert store.versions(RUN) == ()
    run.append("supervisor.log", "more\n")
    outcome = collect_run(with_exit(b"supervisor.log"), host, str(run.root), store)
    assert outcome.new is True
    assert content(outcome.run.tree) == run.files()


def test_a_growing_file_that_was_replaced_by_a_shorter_one_is_left_out(
    run: RunOnHost, host: Host, store: Store
) -> None:
    class Replacing(LocalConnection):
        def stream(
            self,
            argv: Sequence[str],
            *,
            stdin: Iterable[bytes] | None = None,
            timeout_s: float | None = None,
        ) -> Stream:
            if "tar" in argv:
                run.write("servers/s/attempt-1/spec.json", "")
            return super().stream(argv, stdin=stdin, timeout_s=timeout_s)

    outcome = collect_run(Replacing(), host, str(run.root), store)
    assert not (outcome.run.tree / "servers/s/attempt-1/spec.json").exists()
    assert outcome.left_out[-1] == (
        "servers/s/attempt-1/spec.json: was replaced while it was copied"
    )


def test_a_cut_copy_is_continued(run: RunOnHost, host: Host, store: Store) -> None:
    for number in range(6):
        run.write(f"cells/c{number}/attempt-1/export", bytes([number]) * BIG_BYTES)
    run.end()
    middle = 3 * BIG_BYTES + 100_000
    with pytest.raises(ConnectionLost) as caught:
        collect_run(cut_after(middle), host, str(run.root), store)
    assert caught.value.next_step == f"runner collect {RUN} goes on from there"
    assert "the connection broke after 3 of 12 files: reset by peer" in str(caught.value)
    assert store.versions(RUN) == ()
    assert not (store.root / "quick").exists()
    outcome = collect_run(LocalConnection(), host, str(run.root), store)
    assert outcome.received_files == 9
    assert 3 * BIG_BYTES < outcome.received_bytes < middle
    assert content(outcome.run.tree) == run.files()
    assert store.verify(RUN) == ()
    assert list((store.root / ".partial").iterdir()) == []


def test_a_cut_copy_of_a_run_that_goes_on_is_continued(
    run: RunOnHost, host: Host, store: Store
) -> None:
    for number in range(4):
        run.write(f"cells/c{number}/attempt-1/export", bytes([number]) * BIG_BYTES)
        run.write(f"cells/c{number}/attempt-1/result.json", str(number))
    with pytest.raises(ConnectionLost):
        collect_run(cut_after(2 * BIG_BYTES + 100_000), host, str(run.root), store)
    outcome = collect_run(LocalConnection(), host, str(run.root), store)
    assert 2 * BIG_BYTES < outcome.received_bytes < 2 * BIG_BYTES + 100_000
    assert content(outcome.run.tree) == run.files()


def test_a_file_that_differs_from_the_manifest_is_named_and_the_rest_is_kept(
    run: RunOnHost, host: Host, store: Store
) -> None:
    run.cell("a")
    run.end()
    whole = run.files()
    target = "cells/a/attempt-1/load/aiperf/profile_export.jsonl"
    run.write(target, b"A" * 5000)
    with pytest.raises(ManifestMismatch) as caught:
        collect_run(LocalConnection(), host, str(run.root), store)
    expected, got = (hashlib.sha256(data * 5000).hexdigest() for data in (b"a", b"A"))
    assert f"{target}: expected sha256 {expected}, got {got}" in str(caught.value)
    assert store.versions(RUN) == ()
    run.write(target, b"AA")
    with pytest.raises(ManifestMismatch, match="expected 5000 bytes, got 2"):
        collect_run(LocalConnection(), host, str(run.root), store)
    run.write(target, whole[target])
    outcome = collect_run(LocalConnection(), host, str(run.root), store)
    assert outcome.received_files == 1
    assert content(outcome.run.tree) == whole


def test_a_file_of_the_manifest_that_is_gone(run: RunOnHost, host: Host, store: Store) -> None:
    run.cell("a")
    run.end()
    (run.root / "cells/a/attempt-1/result.json").unlink()
    with pytest.raises(CommandFailed) as caught:
        collect_run(LocalConnection(), host, str(run.root), store)
    assert "tar: cells/a/attempt-1/result.json: Cannot stat: No such file" in str(caught.value)
    assert caught.value.command_exit_code == 2
    assert store.versions(RUN) == ()


def test_files_that_never_come_are_missed(run: RunOnHost, host: Host, store: Store) -> None:
    run.end()
    with pytest.raises(ArtifactError, match=r"6 files were not sent, the first is host\.json"):
        collect_run(sends(), host, str(run.root), store)


@pytest.mark.parametrize(
    ("name", "kind", "target", "message"),
    [
        ("latest", tarfile.SYMTYPE, "/etc", "'latest' is a link to '/etc'"),
        ("plan.json", tarfile.SYMTYPE, "/etc/passwd", "'plan.json' is a link to '/etc/passwd'"),
        ("../../planted", tarfile.REGTYPE, "", "'../../planted' does not stay inside the run"),
        ("report/planted", tarfile.REGTYPE, "", "'report/planted' was not asked for"),
    ],
)
def test_an_archive_that_is_not_what_was_asked_for_is_refused(
    run: RunOnHost, host: Host, store: Store, name: str, kind: bytes, target: str, message: str
) -> None:
    run.end()
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    with pytest.raises(UnsafeArchive) as caught:
        collect_run(sends(member), host, str(run.root), store)
    assert message in str(caught.value)
    assert store.versions(RUN) == ()
    assert [path for path in store.root.rglob("*") if path.is_file() or path.is_symlink()] == []


@pytest.mark.parametrize("path", ["../../planted", "/etc/passwd", "plan.json/x"])
def test_a_manifest_that_points_outside_is_refused(
    run: RunOnHost, host: Host, store: Store, path: str
) -> None:
    run.end()
    manifest = json.loads((run.root / "manifest.json").read_text())
    manifest["files"].append({"path": path, "size_bytes": 1, "sha256": "0" * 64})
    (run.root / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UnsafeArchive):
        collect_run(LocalConnection(), host, str(run.root), store)
    assert store.versions(RUN) == ()


def test_a_manifest_of_another_run_is_refused(run: RunOnHost, host: Host, store: Store) -> None:
    write_json(run.root / "manifest.json", build_manifest(run.root, "other", "quick", AT))
    with pytest.raises(ArtifactError, match="belongs to run other"):
        collect_run(LocalConnection(), host, str(run.root), store)


def test_no_run_there(host: Host, store: Store, tmp_path: Path) -> None:
    with pytest.raises(FileMissing, match="there is no run in") as caught:
        collect_run(LocalConnection(), host, str(tmp_path / "runs/quick/none"), store)
    assert caught.value.next_step == "runner ps --host local"
    assert not store.root.exists()


def test_a_complete_version_is_never_followed_by_an_incomplete_one(
    run: RunOnHost, host: Host, store: Store
) -> None:
    run.end()
    collect_run(LocalConnection(), host, str(run.root), store)
    (run.root / "manifest.json").unlink()
    run.append("supervisor.log", "who writes here?\n")
    with pytest.raises(ArtifactError, match="version 1 here is complete: nothing was taken"):
        collect_run(LocalConnection(), host, str(run.root), store)
    assert [r.version for r in store.versions(RUN)] == [1]


def test_a_damaged_journal_is_collected_too(run: RunOnHost, host: Host, store: Store) -> None:
    run.append("journal.jsonl", "not an event\n")
    outcome = collect_run(LocalConnection(), host, str(run.root), store)
    assert outcome.run.record.status == "UNKNOWN"
    assert (outcome.run.tree / "journal.jsonl").read_bytes().endswith(b"not an event\n")


def test_a_report_in_the_store_survives(run: RunOnHost, host: Host, store: Store) -> None:
    run.end()
    first = collect_run(LocalConnection(), host, str(run.root), store)
    (first.run.tree / "report").mkdir()
    (first.run.tree / "report/README.md").write_text("figures")
    again = collect_run(LocalConnection(), host, str(run.root), store)
    assert again.new is False
    assert (again.run.link / "report/README.md").read_text() == "figures"
    assert store.verify(RUN) == ()


def test_more_names_than_a_pipe_holds(run: RunOnHost, host: Host, store: Store) -> None:
    for number in range(1500):
        run.write(f"cells/{'n' * 100}/attempt-1/{number:04d}", f"{number}" * 20)
    run.end()
    outcome = collect_run(LocalConnection(), host, str(run.root), store)
    assert content(outcome.run.tree) == run.files()


def test_runs_on_a_host(run: RunOnHost, host: Host, store: Store, tmp_path: Path) -> None:
    older = tmp_path / "runs/full/20261130T101500Z-full-0000"
    older.mkdir(parents=True)
    (older / "plan.json").write_text("{}")
    (tmp_path / "runs/quick/notes").mkdir()
    (tmp_path / "runs/quick/notes/plan.json").write_text("{}")
    (tmp_path / "runs/quick/20261202T101500Z-quick-1111").mkdir()
    run.end()
    runs = runs_on_host(LocalConnection(), host)
    assert [(r.job, r.run_id, r.run_dir, r.complete) for r in runs] == [
        ("full", older.name, str(older), False),
        ("quick", RUN, str(run.root), True),
    ]
    assert with_news(runs, store) == runs
    collect_run(LocalConnection(), host, str(run.root), store)
    assert with_news(runs, store) == runs[:1]
    shutil.rmtree(tmp_path / "runs")
    assert runs_on_host(LocalConnection(), host) == ()


names = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1, max_size=30
).filter(lambda name: name not in {".", ".."} and len(name.encode()) < 200)


@contextmanager
def finished(folder: Path, files: dict[str, bytes]) -> Iterator[RunOnHost]:
    made = RunOnHost(folder)
    for path, data in files.items():
        made.write(f"cells/{path}", data)
    made.end()
    yield made
    made.journal.close()


@settings(max_examples=15, deadline=None)
@given(files=st.dictionaries(st.tuples(names, names), st.binary(max_size=3000), max_size=6))
def test_any_tree_of_files_comes_over_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, files: dict[tuple[str, str], bytes]
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    host = Host(name="local", connection=ConnectionKind.LOCAL, run_root=str(folder))
    store = Store(folder / "artifacts")
    with finished(folder, {"/".join(path): data for path, data in files.items()}) as run:
        outcome = collect_run(LocalConnection(), host, str(run.root), store)
        assert content(outcome.run.tree) == run.files()
        assert store.verify(RUN) == ()


def test_owner_modes_of_the_host_are_not_taken_over(
    run: RunOnHost, host: Host, store: Store
) -> None:
    target = run.write("cells/a/attempt-1/r.json", "{}x")
    target.chmod(0o6777)
    target.parent.chmod(0o700)
    run.end()
    outcome = collect_run(LocalConnection(), host, str(run.root), store)
    copy = outcome.run.tree / "cells/a/attempt-1/r.json"
    assert copy.stat().st_mode & 0o7777 == 0o444
    assert copy.parent.stat().st_mode & 0o500 == 0o500

"""A tar from a host is taken apart without trusting it."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.artifacts.extract import Arrived, BrokenArchive, Wanted, extract
from runner.errors import ConnectionLost, UnsafeArchive

Member = tuple[str, bytes] | tarfile.TarInfo


def tar_of(*members: Member) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size, info.mode = len(member[1]), 0o4777
                archive.addfile(info, io.BytesIO(member[1]))
    return buffer.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def take(data: bytes, wanted: dict[str, Wanted], scratch: Path, piece: int = 700) -> list[Arrived]:
    chunks = (data[start : start + piece] for start in range(0, len(data), piece))
    return list(extract(chunks, wanted, scratch))


def test_files_come_whole_with_hash_and_own_mode(tmp_path: Path) -> None:
    long_name = "cells/" + "x" * 150 + "/-é\n.json"
    content = bytes(range(256)) * 40
    data = tar_of(
        special("cells", tarfile.DIRTYPE), (long_name, content), ("empty", b""), ("b", b"bb")
    )
    wanted = {long_name: Wanted(len(content)), "empty": Wanted(0), "b": Wanted(2)}
    arrived = take(data, wanted, tmp_path)
    assert [(a.path, a.size_bytes, a.sent_bytes) for a in arrived] == [
        (long_name, 10240, 10240),
        ("empty", 0, 0),
        ("b", 2, 2),
    ]
    assert arrived[0].file.read_bytes() == content
    assert arrived[0].sha256 == hashlib.sha256(content).hexdigest()
    assert {a.file.parent for a in arrived} == {tmp_path}
    assert arrived[0].file.stat().st_mode & 0o7777 == 0o600


def test_of_a_growing_file_the_announced_part_is_taken(tmp_path: Path) -> None:
    data = tar_of(("journal.jsonl", b"one\ntwo\nthr"), ("log", b"short"))
    wanted = {"journal.jsonl": Wanted(8, growing=True), "log": Wanted(9, growing=True)}
    first, second = take(data, wanted, tmp_path)
    assert first.file.read_bytes() == b"one\ntwo\n"
    assert (first.size_bytes, first.sent_bytes) == (8, 11)
    assert first.sha256 == hashlib.sha256(b"one\ntwo\n").hexdigest()
    assert (second.size_bytes, second.sent_bytes) == (5, 5)


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (("/etc/cron.d/x", b"x"), "'/etc/cron.d/x' does not stay inside the run"),
        (("../x", b"x"), "'../x' does not stay inside the run"),
        (("cells/../../x", b"x"), "'cells/../../x' does not stay inside the run"),
        (("./ok", b"x"), "'./ok' does not stay inside the run"),
        (special("latest", tarfile.SYMTYPE, "/etc"), "'latest' is a link to '/etc'"),
        (special("ok", tarfile.SYMTYPE, "/etc/passwd"), "'ok' is a link to '/etc/passwd'"),
        (special("ok", tarfile.LNKTYPE, "first"), "'ok' is a link to 'first'"),
        (special("ok", tarfile.CHRTYPE), "'ok' is a special file: only regular files"),
        (special("ok", tarfile.FIFOTYPE), "'ok' is a special file: only regular files"),
        (special("../d", tarfile.DIRTYPE), "'../d' does not stay inside the run"),
        (("other", b"x"), "'other' was not asked for"),
        (("first", b"1"), "'first' came twice"),
    ],
)
def test_unsafe_members_are_named_and_what_came_before_is_kept(
    tmp_path: Path, member: Member, message: str
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    data = tar_of(("first", b"1"), member, ("after", b"2"))
    wanted = {name: Wanted(1) for name in ("first", "ok", "after")}
    arrived = []
    with pytest.raises(UnsafeArchive) as caught:
        for one in extract(iter([data]), wanted, scratch):
            arrived.append(one)
    assert message in str(caught.value)
    assert [one.path for one in arrived] == ["first"]
    assert list(scratch.iterdir()) == [arrived[0].file]
    assert list(tmp_path.iterdir()) == [scratch]


def test_a_folder_is_never_created(tmp_path: Path) -> None:
    data = tar_of(special("cells", tarfile.DIRTYPE), ("cells/a", b"a"))
    (arrived,) = take(data, {"cells/a": Wanted(1)}, tmp_path)
    assert list(tmp_path.iterdir()) == [arrived.file]


def test_a_stream_longer_than_announced_is_refused(tmp_path: Path) -> None:
    data = tar_of(("a", bytes(3 << 20)))
    with pytest.raises(UnsafeArchive, match="longer than what was announced"):
        take(data, {"a": Wanted(1)}, tmp_path, piece=1 << 16)


def test_a_cut_stream_keeps_what_was_whole(tmp_path: Path) -> None:
    data = tar_of(("a", b"a" * 600), ("b", b"b" * 9000))
    wanted = {"a": Wanted(600), "b": Wanted(9000)}
    arrived = []
    with pytest.raises(BrokenArchive, match="broke off or is no tar") as caught:
        for one in extract(iter([data[:4000]]), wanted, tmp_path):
            arrived.append(one)
    assert isinstance(caught.value.__cause__, tarfile.TarError)
    assert [one.path for one in arrived] == ["a"]
    assert list(tmp_path.iterdir()) == [arrived[0].file]


def test_a_broken_connection_passes_and_leaves_no_piece(tmp_path: Path) -> None:
    data = tar_of(("a", b"a" * 600), ("b", b"b" * 9000))

    def chunks() -> Iterator[bytes]:
        yield data[:4000]
        raise ConnectionLost("gone")

    arrived = []
    with pytest.raises(ConnectionLost, match="gone"):
        for one in extract(chunks(), {"a": Wanted(600), "b": Wanted(9000)}, tmp_path):
            arrived.append(one)
    assert [one.path for one in arrived] == ["a"]
    assert list(tmp_path.iterdir()) == [arrived[0].file]


def test_what_is_no_tar_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BrokenArchive, match="broke off or is no tar"):
        take(b"docker: Error response from daemon\n" * 40, {"a": Wanted(1)}, tmp_path)

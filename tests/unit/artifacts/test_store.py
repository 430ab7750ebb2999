"""Versions of runs: every file once, old versions untouched, damage found and repaired."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.artifacts.atomic import write_json
from runner.artifacts.hashing import ProblemKind, build_manifest
from runner.artifacts.store import Store, StoredRun
from runner.errors import ArtifactError, UnsafeArchive, UsageError
from runner.models.manifest import FileEntry

RUN = "20261201T101500Z-quick-3f9a"
AT = "2026-12-01T10:16:00.000Z"


def put(store: Store, files: dict[str, bytes], run_id: str = RUN) -> list[FileEntry]:
    with store.intake(run_id) as intake:
        return [
            intake.keep_bytes(path, data, hashlib.sha256(data).hexdigest())
            for path, data in files.items()
        ]


def commit(
    store: Store,
    files: dict[str, bytes],
    run_id: str = RUN,
    job: str = "quick",
    complete: bool = False,
) -> StoredRun:
    return store.commit(
        run_id=run_id,
        job=job,
        host="local",
        status="RUNNING",
        complete=complete,
        collected_at=AT,
        files=put(store, files, run_id),
        left_out=("cells/x/attempt-1: still going",),
    )


def everything(root: Path) -> dict[str, tuple[int, int, int, int]]:
    """Inode, size, mtime and mode of all that is below a folder."""
    found = {}
    for path in [root, *root.rglob("*")]:
        status = path.lstat()
        key = str(path.relative_to(root))
        found[key] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode)
    return found


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "artifacts")


def test_reading_an_absent_store_creates_nothing(store: Store) -> None:
    assert store.runs() == ()
    assert store.versions(RUN) == ()
    with pytest.raises(UsageError, match="nothing is collected yet"):
        store.find("quick")
    assert not store.root.exists()


def test_a_version_on_disk(store: Store) -> None:
    run = commit(store, {"plan.json": b"{}", "cells/a/x": b"xx"})
    assert run.version == 1
    assert run.tree == store.root / ".versions" / RUN / "0001"
    assert str((store.root / "quick" / RUN).readlink()) == f"../.versions/{RUN}/0001"
    assert (store.root / "quick" / RUN / "cells/a/x").read_bytes() == b"xx"
    digest = hashlib.sha256(b"xx").hexdigest()
    content = store.root / ".objects" / digest[:2] / digest
    assert content.stat().st_ino == (run.tree / "cells/a/x").stat().st_ino
    assert content.stat().st_mode & 0o777 == 0o444
    assert [entry.path for entry in run.record.files] == ["cells/a/x", "plan.json"]
    assert run.record.left_out == ("cells/x/attempt-1: still going",)
    assert store.versions(RUN) == (run,)
    assert store.verify(RUN) == ()


def test_the_same_files_change_nothing_at_all(store: Store) -> None:
    first = commit(store, {"a": b"1", "b": b"2"})
    (first.tree / "report").mkdir()
    (first.tree / "report/README.md").write_text("figures")
    before = everything(store.root)
    assert commit(store, {"b": b"2", "a": b"1"}) == first
    after = everything(store.root)
    assert after == before
    assert store.verify(RUN) == ()


def test_a_grown_run_is_a_new_version_and_the_old_one_stays(store: Store) -> None:
    commit(store, {"same": b"same", "journal.jsonl": b"1\n"})
    first = store.path(RUN)
    before = everything(first)
    second = commit(store, {"same": b"same", "journal.jsonl": b"1\n2\n", "new": b""})
    assert second.version == 2
    assert str(second.link.readlink()) == f"../.versions/{RUN}/0002"
    assert everything(first) == before
    assert (first / "journal.jsonl").read_bytes() == b"1\n"
    assert (second.link / "journal.jsonl").read_bytes() == b"1\n2\n"
    assert (first / "same").stat().st_ino == (second.tree / "same").stat().st_ino
    assert [run.version for run in store.versions(RUN)] == [1, 2]
    assert store.path(RUN, 1) == first
    assert [store.verify(RUN, number) for number in (1, 2)] == [(), ()]
    with pytest.raises(UsageError, match="has no version 3; there are: 1, 2"):
        store.version(RUN, 3)


def test_find_by_id_prefix_and_job(store: Store) -> None:
    older, newer, other = (
        "20261201T101500Z-quick-aaaa",
        "20261202T101500Z-quick-bbbb",
        "20261202T111500Z-full-cccc",
    )
    for run_id, job in ((newer, "quick"), (older, "quick"), (other, "full")):
        commit(store, {"plan.json": run_id.encode()}, run_id, job)
    assert [run.run_id for run in store.runs()] == [older, newer, other]
    assert store.find(older).run_id == older
    assert store.find("quick").run_id == newer
    assert store.find("20261201").run_id == older
    with pytest.raises(UsageError) as several:
        store.find("20261202")
    assert f"'20261202' fits 2 runs: {newer} (quick), {other} (full)" in str(several.value)
    with pytest.raises(UsageError) as none:
        store.find("fast")
    assert f"'fast' fits no run here; there are: {older} (quick), " in str(none.value)
    with pytest.raises(UsageError):
        store.find("")


def damage(path: Path, data: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(data)


def test_a_damaged_object_is_found_and_collected_again(store: Store) -> None:
    files = {"a": b"right", "b": b"other"}
    run = commit(store, files)
    damage(run.tree / "a", b"wrong")
    (problem,) = store.verify(RUN)
    assert (problem.kind, problem.path) == (ProblemKind.HASH, "a")
    assert problem.expected == hashlib.sha256(b"right").hexdigest()
    assert problem.got == hashlib.sha256(b"wrong").hexdigest()
    store.objects.path(str(problem.expected)).unlink()
    assert commit(store, files).version == 1
    assert (run.tree / "a").read_bytes() == b"right"
    assert store.verify(RUN) == ()


def test_a_damaged_size_is_noticed_without_reading(store: Store) -> None:
    (entry,) = put(store, {"a": b"right"})
    damage(store.objects.path(entry.sha256), b"")
    assert not store.objects.has(entry)
    put(store, {"a": b"right"})
    assert store.objects.path(entry.sha256).read_bytes() == b"right"


def test_missing_and_extra_files_in_a_version(store: Store) -> None:
    run = commit(store, {"a": b"1", "cells/b": b"2"})
    (run.tree / "a").unlink()
    (run.tree / "cells/c").write_text("3")
    assert [str(problem) for problem in store.verify(RUN)] == [
        "a: missing",
        "cells/c: not in the manifest",
    ]


def test_a_complete_version_is_checked_against_its_own_manifest(
    store: Store, tmp_path: Path
) -> None:
    source = tmp_path / "run"
    source.mkdir()
    for name in ("a", "b"):
        (source / name).write_text(name)
    write_json(source / "manifest.json", build_manifest(source, RUN, "quick", AT))
    manifest = (source / "manifest.json").read_bytes()
    commit(store, {"a": b"a", "b": b"b", "manifest.json": manifest}, complete=True)
    assert store.verify(RUN) == ()
    commit(store, {"a": b"A", "c": b"c", "manifest.json": manifest}, complete=True)
    assert [(p.path, p.kind) for p in store.verify(RUN)] == [
        ("a", ProblemKind.HASH),
        ("b", ProblemKind.MISSING),
        ("c", ProblemKind.EXTRA),
    ]


def test_content_that_is_not_there_makes_no_version(store: Store) -> None:
    entry = FileEntry(path="a", size_bytes=1, sha256="0" * 64)
    with pytest.raises(ArtifactError, match="content of 1 files is not here, the first is a"):
        store.commit(
            run_id=RUN,
            job="quick",
            host="local",
            status="RUNNING",
            complete=False,
            collected_at=AT,
            files=[entry],
        )
    assert store.versions(RUN) == ()


@pytest.mark.parametrize(
    "paths", [["../a"], ["/a"], ["a//b"], ["a/./b"], [""], ["a", "a"], ["a", "a/b"], ["a\0"]]
)
def test_paths_that_leave_or_contradict_are_refused(store: Store, paths: list[str]) -> None:
    (good,) = put(store, {"good": b""})
    entries = [good.model_copy(update={"path": path}) for path in paths]
    with pytest.raises(UnsafeArchive):
        store.commit(
            run_id=RUN,
            job="quick",
            host="local",
            status="RUNNING",
            complete=False,
            collected_at=AT,
            files=entries,
        )


@pytest.mark.parametrize("name", ["..", "a/b", ".hidden", ""])
def test_names_that_are_no_folder_are_refused(store: Store, name: str) -> None:
    with pytest.raises(ArtifactError, match="can't be a folder name"):
        commit(store, {"a": b""}, job=name)
    with pytest.raises(ArtifactError, match="can't be a folder name"):
        store.intake(name)


def test_what_a_killed_collect_was_building_is_removed_by_the_next(store: Store) -> None:
    first = commit(store, {"plan.json": b"{}"})
    unfinished = first.tree.with_name(".0002.deadbeef.tmp")
    (unfinished / "cells").mkdir(parents=True)
    commit(store, {"plan.json": b"{ }"})
    assert not unfinished.exists()
    assert sorted(path.name for path in first.tree.parent.iterdir()) == [
        "0001",
        "0001.json",
        "0002",
        "0002.json",
    ]


def test_a_store_inside_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file")
    assert store.runs() == ()
    with pytest.raises(ArtifactError, match="can't be written: Not a directory"):
        commit(store, {"plan.json": b"{}"})
    with pytest.raises(ArtifactError, match="can't be written: File exists"):
        store.commit(
            run_id=RUN,
            job="quick",
            host="local",
            status="RUNNING",
            complete=False,
            collected_at=AT,
            files=[],
        )


def test_a_tree_left_by_a_crash_is_no_version(store: Store) -> None:
    stale = store.root / ".versions" / RUN / "0001"
    stale.mkdir(parents=True)
    (stale / "half").write_text("x")
    assert store.runs() == ()
    run = commit(store, {"a": b"1"})
    assert [path.name for path in run.tree.iterdir()] == ["a"]


def test_without_hard_links_files_are_copied(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr("os.link", refuse)
    run = commit(store, {"a": b"1"})
    assert store.verify(RUN) == ()
    assert (run.tree / "a").stat().st_nlink == 1
    before = everything(store.root)
    assert commit(store, {"a": b"1"}) == run
    assert everything(store.root) == before


def test_a_folder_in_the_place_of_the_link_is_not_removed(store: Store) -> None:
    mine = store.root / "quick" / RUN
    mine.mkdir(parents=True)
    (mine / "note.txt").write_text("mine")
    with pytest.raises(ArtifactError, match="can't become a link to version 1") as caught:
        commit(store, {"a": b"1"})
    assert caught.value.next_step == f"move what is there away: mv {mine} {mine}.old"
    assert (mine / "note.txt").read_text() == "mine"
    assert [path.name for path in mine.parent.iterdir()] == [RUN]


def test_one_collect_of_a_run_at_a_time(store: Store) -> None:
    with store.intake(RUN):
        with pytest.raises(ArtifactError, match=r"another collect of run .* is at work"):
            store.intake(RUN).__enter__()
        with store.intake("20261201T101500Z-quick-0000"):
            pass
    with store.intake(RUN):
        pass


names = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1, max_size=12
).filter(lambda name: name not in {".", ".."} and len(name.encode()) < 60)
trees = st.recursive(
    st.binary(max_size=200), lambda children: st.dictionaries(names, children, max_size=4)
)


def flatten(tree: dict[str, object], prefix: str = "") -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            found |= flatten(value, f"{prefix}{name}/")
        else:
            assert isinstance(value, bytes)
            found[prefix + name] = value
    return found


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(names, trees, max_size=4))
def test_any_tree_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, object]
) -> None:
    store = Store(tmp_path_factory.mktemp("property"))
    files = flatten(tree)
    run = commit(store, files)
    there = {
        str(path.relative_to(run.tree)): path.read_bytes()
        for path in run.tree.rglob("*")
        if path.is_file()
    }
    assert there == files
    assert store.verify(RUN) == ()

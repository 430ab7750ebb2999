"""Prune deletes one run folder and what carries the run's label, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.client.prune import check_prunable, prune_run
from runner.errors import HostError, UsageError
from runner.transport.base import Completed
from runner.transport.local import LocalConnection
from tests.fixtures.host_folder import DIGEST, FolderHost, RunFolder

OTHER = "20261201T101500Z-demo-0000"


def prune(box: FolderHost, run: RunFolder, connection: LocalConnection | None = None):  # type: ignore[no-untyped-def]
    reader = box.reader(run)
    if connection is not None:
        reader.connection = connection
    return prune_run(reader, box.host, reader.view())


class RootOwned(LocalConnection):
    """`rm -rf` is refused until a container has emptied the folder."""

    def __init__(self, helper_works: bool):
        super().__init__("box")
        self.helper_works = helper_works
        self.emptied = False
        self.helper: list[str] = []

    def run(self, argv, **options):  # type: ignore[no-untyped-def]
        if argv[0] == "rm" and not self.emptied:
            return Completed(tuple(argv), 1, b"", b"rm: cannot remove: Permission denied")
        if "--entrypoint" in argv:
            self.helper = list(argv)
            self.emptied = self.helper_works
            return Completed(tuple(argv), 0, b"", b"")
        return super().run(argv, **options)


def test_prune_removes_the_run_and_leaves_others(box: FolderHost) -> None:
    run, other = box.add_run(), box.add_run(OTHER)
    run.end()
    other.end()
    (box.engine / "labelled").write_text("aaa\nbbb\n")
    (box.engine / "networks").write_text("nnn\n")
    done = prune(box, run)
    assert (done.containers, done.networks, done.as_root) == (2, 1, False)
    assert not Path(run.ref.root).exists()
    assert Path(other.layout.plan).exists()
    wanted = f"--filter label=dev.runner.run={run.ref.run_id}"
    assert [call for call in box.calls() if not call.startswith("inspect")] == [
        f"ps --all --quiet {wanted}",
        "rm --force --volumes aaa bbb",
        f"network ls --quiet {wanted}",
        "network rm nnn",
    ]


def test_the_last_run_of_a_job_takes_the_jobs_folder_along(box: FolderHost) -> None:
    run = box.add_run()
    run.end()
    prune(box, run)
    assert not Path(run.ref.root).parent.exists()
    assert Path(box.host.run_root).exists()


def test_a_run_folder_that_is_a_link_is_left_alone(box: FolderHost, tmp_path: Path) -> None:
    run = box.add_run()
    run.end()
    elsewhere = tmp_path / "precious"
    Path(run.ref.root).rename(elsewhere)
    Path(run.ref.root).symlink_to(elsewhere)
    with pytest.raises(HostError, match="nothing deleted"):
        prune(box, run)
    assert (elsewhere / "plan.json").exists()
    assert not any(call.startswith("rm") for call in box.calls())


def test_a_run_root_that_is_a_link_is_fine(box: FolderHost, tmp_path: Path) -> None:
    run = box.add_run()
    run.end()
    real = tmp_path / "disk"
    Path(box.host.run_root).rename(real)
    Path(box.host.run_root).symlink_to(real)
    prune(box, run)
    assert not (real / "demo").exists()


def test_files_of_root_are_removed_by_a_container_that_sees_the_run_alone(box: FolderHost) -> None:
    run = box.add_run()
    run.end()
    connection = RootOwned(helper_works=True)
    assert prune(box, run, connection).as_root
    assert connection.helper[3:] == [
        *("run", "--rm", "--network", "none", "--user", "0:0"),
        *("--mount", f"type=bind,source={run.ref.root},target=/target"),
        *("--entrypoint", "find", DIGEST, "/target", "-mindepth", "1", "-delete"),
    ]
    assert not Path(run.ref.root).exists()


def test_what_stays_behind_is_listed(box: FolderHost) -> None:
    run = box.add_run()
    run.end()
    with pytest.raises(HostError, match="left behind") as caught:
        prune(box, run, RootOwned(helper_works=False))
    assert f"{run.ref.root}/plan.json" in str(caught.value)


def test_only_what_is_over_and_collected_may_go(box: FolderHost) -> None:
    run = box.add_run()
    with pytest.raises(UsageError, match="what runs is not deleted"):
        check_prunable(box.reader(run).view(), collected=True, force=True)
    run.end()
    view = box.reader(run).view()
    with pytest.raises(UsageError, match="was not collected complete") as caught:
        check_prunable(view, collected=False, force=False)
    assert caught.value.next_step == f"runner collect {run.ref.run_id}"
    check_prunable(view, collected=True, force=False)
    check_prunable(view, collected=False, force=True)


def test_a_lost_run_goes_by_force_only(box: FolderHost) -> None:
    run = box.add_run()
    run.supervisor(False)
    view = box.reader(run).view()
    with pytest.raises(UsageError, match="may still be resumed"):
        check_prunable(view, collected=True, force=False)
    check_prunable(view, collected=False, force=True)


def test_an_upload_that_broke_off_can_be_pruned(box: FolderHost) -> None:
    run = box.add_run(started=False)
    Path(run.layout.plan).unlink()
    check_prunable(box.reader(run).view(), collected=False, force=True)
    prune(box, run)
    assert not Path(run.ref.root).exists()

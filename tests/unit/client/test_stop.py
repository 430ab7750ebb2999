"""Stop asks, waits, and tells what is left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.client.stop import stop_run
from runner.errors import HostError
from runner.models.status import Status
from tests.fixtures.host_folder import FolderHost


def test_stop_leaves_a_request_and_waits_for_the_end(box: FolderHost) -> None:
    run = box.add_run()
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            run.end(Status.STOPPED)

    view = stop_run(box.reader(run), sleep=sleep, clock=lambda: sum(waits))
    assert view.state.status is Status.STOPPED
    assert len(waits) == 3
    request = json.loads(Path(run.layout.stop_request).read_text())
    assert request["schema_version"] == 1


def test_stop_may_return_at_once(box: FolderHost) -> None:
    run = box.add_run()
    view = stop_run(box.reader(run), wait_s=None)
    assert view.state.status is Status.RUNNING
    assert Path(run.layout.stop_request).exists()


def test_stop_of_a_finished_run_does_nothing(box: FolderHost) -> None:
    run = box.add_run()
    run.end()
    assert stop_run(box.reader(run)).state.status is Status.SUCCEEDED
    assert not Path(run.layout.stop_request).exists()


def test_stop_of_a_lost_run_names_the_way_out(box: FolderHost) -> None:
    run = box.add_run()
    run.supervisor(False)
    with pytest.raises(HostError, match="is LOST") as caught:
        stop_run(box.reader(run))
    assert caught.value.next_step == f"runner resume {run.ref.run_id}"
    assert Path(run.layout.stop_request).exists()


def test_stop_says_when_the_run_goes_on(box: FolderHost) -> None:
    run = box.add_run()
    waits: list[float] = []
    with pytest.raises(HostError, match=r"stop incomplete: run .* is still RUNNING 3 s after"):
        stop_run(box.reader(run), wait_s=3, sleep=waits.append, clock=lambda: sum(waits))


def test_a_supervisor_that_dies_while_stopping_is_told_as_lost(box: FolderHost) -> None:
    run = box.add_run()
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        run.supervisor(False)

    with pytest.raises(HostError, match="is still LOST"):
        stop_run(box.reader(run), wait_s=2, sleep=sleep, clock=lambda: sum(waits))

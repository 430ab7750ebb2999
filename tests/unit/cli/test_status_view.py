"""Watching a run goes on when the connection does not."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from typing import cast

import pytest

from runner.cli import status_view
from runner.client.runs import RunReader, RunView
from runner.errors import ConnectionLost, HostUnreachable
from runner.models.status import Status
from runner.transport.base import Connection
from tests.fixtures.host_folder import FolderHost


class Shaky:
    """A reader whose first link breaks; the host is away for some calls after that."""

    def __init__(self, reader: RunReader, away: int):
        self.reader = reader
        self.away = away
        self.connection = reader.connection

    def view(self) -> RunView:
        if self.connection is self.reader.connection:
            raise ConnectionLost("the connection broke", where="box")
        return self.reader.view()

    def reconnect(self) -> Connection:
        self.away -= 1
        if self.away >= 0:
            raise HostUnreachable("no answer", where="box")
        return cast(Connection, object())


def test_a_lost_connection_is_told_once(box: FolderHost, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(status_view.time, "sleep", waits.append)
    run = box.add_run()
    run.end()
    shaky = Shaky(box.reader(run), away=3)
    said = io.StringIO()
    with redirect_stderr(said):
        view = status_view.watch_run(cast(RunReader, shaky), shaky.reconnect)
    assert view.state.status is Status.SUCCEEDED
    assert said.getvalue().splitlines() == [
        "note: the connection broke; the run goes on, connecting again",
        "note: connected again",
        "SUCCEEDED: 3 of 3 cells done",
    ]
    assert len(waits) == 4


def test_a_host_that_stays_away_is_given_up(
    box: FolderHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(status_view.time, "sleep", lambda _: now.__setitem__(0, now[0] + 60))
    monkeypatch.setattr(status_view.time, "monotonic", lambda: now[0])
    shaky = Shaky(box.reader(box.add_run()), away=99)
    with redirect_stderr(io.StringIO()), pytest.raises(HostUnreachable, match="no answer"):
        status_view.await_end(cast(RunReader, shaky), shaky.reconnect)
    assert now[0] == 360.0

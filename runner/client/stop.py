"""Ask a run to stop: its supervisor drains what runs and ends with a record of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from runner.client.runs import RunReader, RunView
from runner.errors import HostError
from runner.journal.writer import utc_now
from runner.models.status import Status

_POLL_S = 0.5


def stop_run(
    reader: RunReader,
    *,
    wait_s: float | None = 180.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> RunView:
    """Leave a stop request for the supervisor and wait until the run is final.

    A run that is final already is left as it is. The request stays, so that a supervisor that is
    started later heeds it.

    Args:
        wait_s: how long to wait, in seconds; None returns at once.

    Raises:
        HostError: nothing listens (the run is LOST), or it was not final in time.
    """
    view = reader.view()
    if view.state.status.final and view.state.status is not Status.LOST:
        return view
    request = {"schema_version": 1, "requested_at": utc_now()}
    reader.connection.put(str(reader.ref.layout.stop_request), json.dumps(request).encode())
    if view.state.status is Status.LOST:
        raise HostError(
            f"run {reader.ref.run_id} is LOST: {view.state.message}; the stop request waits for "
            "a supervisor, which removes the run's containers as soon as it starts",
            where=reader.ref.host,
            next_step=f"runner resume {reader.ref.run_id}",
        )
    if wait_s is None:
        return view
    return _wait(reader, wait_s, sleep, clock)


def _wait(
    reader: RunReader, wait_s: float, sleep: Callable[[float], None], clock: Callable[[], float]
) -> RunView:
    deadline = clock() + wait_s
    while True:
        sleep(_POLL_S)
        if reader.state().status.final:
            return reader.view()
        if clock() > deadline:
            view = reader.view()
            if view.state.status.final and view.state.status is not Status.LOST:
                return view
            raise HostError(
                f"stop incomplete: run {reader.ref.run_id} is still {view.state.status} "
                f"{wait_s:.0f} s after it was asked",
                where=reader.ref.host,
                next_step=f"runner status {reader.ref.run_id}",
            )
